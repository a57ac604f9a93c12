package store

import (
	"context"
	"errors"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// CloseRequest takes a request, or a command of the existing tool, out of the
// queue. How it ended is recorded first: in a store that denies deletion the
// record alone ends it.
func (s *Store) CloseRequest(ctx context.Context, c Closed) error {
	if err := s.PutClosed(ctx, c); err != nil {
		return err
	}
	for _, remove := range []func(context.Context, string) error{s.DeleteRequest, s.DeleteCommand} {
		if err := remove(ctx, c.Name); err != nil && !errors.Is(err, ErrDenied) {
			return err
		}
	}
	return nil
}

// ReplaceSpec writes the spec, whatever is there. It keeps the fields of the
// present file that this program does not know.
func (s *Store) ReplaceSpec(ctx context.Context, spec cluster.Spec) error {
	return s.PutSpec(ctx, SpecFileOf(spec))
}
