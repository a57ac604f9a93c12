package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func incarnationKey(n int) string { return incarnationPrefix + strconv.Itoa(n) }

func parseIncarnation(key string, b []byte) (cluster.Incarnation, error) {
	var inc cluster.Incarnation
	if err := json.Unmarshal(b, &inc); err != nil {
		return cluster.Incarnation{}, garbage(key, "%v", err)
	}
	if key != incarnationKey(inc.Number) {
		return cluster.Incarnation{}, garbage(key, "it is the record of incarnation %d", inc.Number)
	}
	if err := checkIncarnation(inc); err != nil {
		return cluster.Incarnation{}, garbage(key, "%v", err)
	}
	return inc, nil
}

func checkIncarnation(inc cluster.Incarnation) error {
	switch {
	case inc.Number < 1:
		return fmt.Errorf("incarnation number is %d, the first is 1", inc.Number)
	case inc.Version.IsZero():
		return errors.New("etcd version is missing")
	case len(inc.Voters) == 0:
		return errors.New("there are no voters")
	case inc.Restored != nil && (inc.Restored.Revision < 0 || inc.Restored.Revision > cluster.MaxRevision):
		return fmt.Errorf("it begins with revision %d, which is not possible", inc.Restored.Revision)
	}
	return inc.Token.Validate()
}

// Incarnation reads one record; the error is ErrAbsent when there is none.
func (s *Store) Incarnation(ctx context.Context, n int) (cluster.Incarnation, error) {
	b, err := s.Get(ctx, incarnationKey(n))
	if err != nil {
		return cluster.Incarnation{}, err
	}
	return parseIncarnation(incarnationKey(n), b)
}

// CreateIncarnation writes the record of a new incarnation, only if there is
// none of its number: this is the compare-and-swap of a bootstrap, and of any
// number of callers one wins. A loser gets an *ExistsError with the winner's
// record. A present record with the same token is one's own, written by an
// earlier call whose answer was lost, and means success. A present record that
// is garbage is not replaced; the error is ErrGarbage then.
func (s *Store) CreateIncarnation(ctx context.Context, inc cluster.Incarnation) error {
	if err := checkIncarnation(inc); err != nil {
		return fmt.Errorf("create incarnation %d: %w", inc.Number, err)
	}
	b, err := json.MarshalIndent(inc, "", "  ")
	if err != nil {
		return fmt.Errorf("create incarnation %d: %w", inc.Number, err)
	}
	made, err := s.Create(ctx, incarnationKey(inc.Number), b)
	if err != nil {
		return fmt.Errorf("create incarnation %d: %w", inc.Number, err)
	}
	if made {
		return nil
	}
	present, err := s.Incarnation(ctx, inc.Number)
	switch {
	case err != nil:
		return fmt.Errorf("create incarnation %d: it already exists: %w", inc.Number, err)
	case present.Token == inc.Token:
		return nil
	}
	return &ExistsError{Existing: present}
}
