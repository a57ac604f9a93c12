package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A SpecFile is what control/etcd-cluster-spec says. kops and people write it.
type SpecFile struct {
	// MemberCount and EtcdVersion are zero where the file does not say.
	MemberCount int
	EtcdVersion etcdversion.Version
	// Risk is zero where nothing was accepted.
	Risk cluster.VersionRisk
}

// SpecFileOf returns what the file says of a spec.
func SpecFileOf(spec cluster.Spec) SpecFile {
	return SpecFile{MemberCount: spec.MemberCount, EtcdVersion: spec.EtcdVersion, Risk: spec.Risk}
}

// Over returns spec with what the file says of it: all but the policy.
func (f SpecFile) Over(spec cluster.Spec) cluster.Spec {
	spec.MemberCount, spec.EtcdVersion, spec.Risk = f.MemberCount, f.EtcdVersion, f.Risk
	return spec
}

func parseSpec(key string, b []byte) (SpecFile, error) {
	f, err := parseFields(key, b)
	if err != nil {
		return SpecFile{}, err
	}
	spec, err := f.spec()
	if err == nil && spec == (SpecFile{}) {
		return SpecFile{}, garbage(key, "it has neither a memberCount of 1 or more nor an etcdVersion")
	}
	return spec, err
}

func (f fields) spec() (s SpecFile, err error) {
	if s.MemberCount, err = f.count("memberCount"); err != nil {
		return SpecFile{}, err
	}
	if s.Risk, err = f.risk(); err != nil {
		return SpecFile{}, err
	}
	text, err := f.text("etcdVersion")
	if err != nil || text == "" {
		return s, err
	}
	if s.EtcdVersion, err = etcdversion.Parse(text); err != nil {
		return SpecFile{}, garbage(f.key, "the field etcdVersion: %v", err)
	}
	return s, nil
}

// risk is the field acceptVersionRisk. Nothing else of the spec counts where it cannot
// be understood: what somebody has accepted is not guessed.
func (f fields) risk() (r cluster.VersionRisk, err error) {
	v := f.get(riskField)
	if v == nil {
		return r, nil
	}
	if err = json.Unmarshal(v, &r); err == nil {
		err = r.Validate()
	}
	if err != nil {
		return cluster.VersionRisk{}, garbage(f.key, "the field %s: %v", riskField, err)
	}
	return r, nil
}

// riskField is the one field of the spec that only this program knows.
const riskField = "acceptVersionRisk"

// Spec reads the spec; the error is ErrAbsent when there is none.
func (s *Store) Spec(ctx context.Context) (SpecFile, error) {
	b, err := s.Get(ctx, specKey)
	if err != nil {
		return SpecFile{}, err
	}
	return parseSpec(specKey, b)
}

// WriteSpec writes the spec where there is none. One that somebody has written
// in the meantime stays: it is a newer spec.
func (s *Store) WriteSpec(ctx context.Context, spec cluster.Spec) error {
	file := formatSpec(SpecFileOf(spec), nil)
	if _, err := s.Create(ctx, specKey, file); err != nil {
		return fmt.Errorf("write spec: %w", err)
	}
	return nil
}

// PutSpec writes the spec. It keeps the fields of the present file that this
// program does not know, and replaces a present file that is not JSON.
func (s *Store) PutSpec(ctx context.Context, spec SpecFile) error {
	present, err := s.Get(ctx, specKey)
	if err != nil && !errors.Is(err, ErrAbsent) && !errors.Is(err, ErrGarbage) {
		return fmt.Errorf("write spec: %w", err)
	}
	if err := s.Put(ctx, specKey, formatSpec(spec, present)); err != nil {
		return fmt.Errorf("write spec: %w", err)
	}
	s.announce(ctx)
	return nil
}

// formatSpec returns the file as kops writes it, indented by two spaces, with
// the unknown fields of the present one behind our own.
func formatSpec(spec SpecFile, present []byte) []byte {
	f, err := parseFields(specKey, present)
	if err != nil {
		f.raw = nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"memberCount":%d,"etcdVersion":%q`, spec.MemberCount, spec.EtcdVersion)
	if spec.Risk != (cluster.VersionRisk{}) {
		risk, _ := json.Marshal(spec.Risk) // strings always marshal
		fmt.Fprintf(&b, ",%q:%s", riskField, risk)
	}
	var names []string
	for name := range f.raw {
		if own := []string{"memberCount", "etcdVersion", riskField}; !slices.ContainsFunc(own, func(n string) bool {
			return name == n || name == snake(n)
		}) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		// A string always marshals.
		quoted, _ := json.Marshal(name)
		fmt.Fprintf(&b, ",%s:%s", quoted, f.raw[name])
	}
	b.WriteByte('}')
	var out bytes.Buffer
	// Every part is valid JSON by now.
	_ = json.Indent(&out, b.Bytes(), "", "  ")
	return out.Bytes()
}

func parseCreated(key string, b []byte) (time.Time, error) {
	f, err := parseFields(key, b)
	if err != nil {
		return time.Time{}, err
	}
	nanos, err := f.integer("timestamp")
	if err != nil {
		return time.Time{}, err
	}
	if nanos <= 0 {
		return time.Time{}, garbage(key, "the field timestamp is missing")
	}
	return time.Unix(0, nanos).UTC(), nil
}

// Created reads when the cluster was bootstrapped, by the marker
// control/etcd-cluster-created; the error is ErrAbsent when there is none. Also
// a marker that is garbage says that a cluster was bootstrapped.
func (s *Store) Created(ctx context.Context) (time.Time, error) {
	b, err := s.Get(ctx, createdKey)
	if err != nil {
		return time.Time{}, err
	}
	return parseCreated(createdKey, b)
}

// MarkCreated writes the marker. One that is there stays as it is, unless it is
// garbage, on which the existing etcd-manager would stop.
func (s *Store) MarkCreated(ctx context.Context, at time.Time) error {
	if at.UnixNano() <= 0 {
		return fmt.Errorf("mark the cluster as created: the time %s is not possible", at)
	}
	text := fmt.Appendf(nil, `{"timestamp":%d}`, at.UnixNano())
	made, err := s.Create(ctx, createdKey, text)
	if err == nil && !made {
		if _, err = s.Created(ctx); errors.Is(err, ErrGarbage) {
			err = s.Put(ctx, createdKey, text)
		}
	}
	if err != nil {
		return fmt.Errorf("mark the cluster as created: %w", err)
	}
	return nil
}

// MarkAgain writes the marker over the one that is there: a cluster of the existing
// etcd-manager, which wrote that, has been taken over.
func (s *Store) MarkAgain(ctx context.Context, at time.Time) error {
	if at.UnixNano() <= 0 {
		return fmt.Errorf("mark the cluster as taken over: the time %s is not possible", at)
	}
	if err := s.Put(ctx, createdKey, fmt.Appendf(nil, `{"timestamp":%d}`, at.UnixNano())); err != nil {
		return fmt.Errorf("mark the cluster as taken over: %w", err)
	}
	return nil
}
