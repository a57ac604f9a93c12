package store

import (
	"context"
	"errors"
	"strings"
)

// Begun reports whether the store is that of a cluster: whether it holds a spec, a
// record or anything else below control/, or a backup. A location with a mistake in
// it mostly holds nothing of these.
func (s *Store) Begun(ctx context.Context) (bool, error) {
	found, _, err := s.page(ctx, controlPrefix, nil)
	if err != nil {
		// Something is there that cannot be listed.
		if errors.Is(err, ErrGarbage) {
			return true, nil
		}
		return false, err
	}
	for _, o := range found {
		// Trying the store, announcing a change and asking for one leave these, wherever that was.
		if o.key != probeKey && o.key != changedKey && !strings.HasPrefix(o.key, auditPrefix) {
			return true, nil
		}
	}
	for l := s.List(""); !l.Done(); {
		if err := l.Next(ctx); err != nil {
			return false, err
		}
		if len(l.Backups()) > 0 {
			return true, nil
		}
	}
	return false, nil
}
