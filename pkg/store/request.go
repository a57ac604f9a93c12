package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// requestTime is the time in a request's name. Names sort as their times do.
const requestTime = "20060102T150405.000000000Z"

func parseRequest(key string, b []byte) (cluster.Request, error) {
	var r cluster.Request
	if err := json.Unmarshal(b, &r); err != nil {
		return cluster.Request{}, garbage(key, "%v", err)
	}
	if key != requestPrefix+r.Name {
		return cluster.Request{}, garbage(key, "it is the request %q", r.Name)
	}
	if err := checkRequest(r); err != nil {
		return cluster.Request{}, garbage(key, "%v", err)
	}
	return r, nil
}

func checkRequest(r cluster.Request) error {
	switch {
	case r.At.IsZero():
		return fmt.Errorf("it has no time")
	case r.Kind == cluster.RequestPause, r.Kind == cluster.RequestBackup, r.Kind == cluster.RequestLeaseVoters:
		return nil
	case r.Kind != cluster.RequestRestore:
		return fmt.Errorf("it requests %q, which is unknown", r.Kind)
	case r.Sealed && r.Backup == "" && !r.EtcdVersion.IsZero():
		return nil
	case r.Backup == "":
		return fmt.Errorf("it does not name the backup to restore")
	}
	if err := checkName(r.Backup); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

// PutRequest queues a request and returns it with its name. A request without
// a name gets one that sorts by its time. One with a name is written only if
// the name is free: a second call with the same request is success.
func (s *Store) PutRequest(ctx context.Context, r cluster.Request) (cluster.Request, error) {
	if r.Name == "" {
		random := make([]byte, 4)
		// crypto/rand never fails (Go 1.24).
		_, _ = rand.Read(random)
		r.Name = r.At.UTC().Format(requestTime) + "-" + hex.EncodeToString(random)
	}
	err := checkName(r.Name)
	if err == nil {
		err = checkRequest(r)
	}
	if err != nil {
		return cluster.Request{}, fmt.Errorf("queue %s request: %w", r.Kind, err)
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return cluster.Request{}, fmt.Errorf("queue %s request: %w", r.Kind, err)
	}
	made, err := s.Create(ctx, requestPrefix+r.Name, b)
	if err == nil && !made {
		var present []byte
		if present, err = s.Get(ctx, requestPrefix+r.Name); err == nil && string(present) != string(b) {
			err = fmt.Errorf("another request has the name %s", r.Name)
		}
	}
	if err != nil {
		return cluster.Request{}, fmt.Errorf("queue %s request: %w", r.Kind, err)
	}
	s.announce(ctx)
	return r, nil
}

// DeleteRequest removes a request. That there is none is success.
func (s *Store) DeleteRequest(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("delete request: %w", err)
	}
	if err := s.Delete(ctx, requestPrefix+name); err != nil {
		return err
	}
	s.announce(ctx)
	return nil
}

func sortRequests(all []cluster.Request) {
	slices.SortFunc(all, func(a, b cluster.Request) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
}
