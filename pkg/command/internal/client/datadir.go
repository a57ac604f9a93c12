package client

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/cli"
)

// hold keeps etcd away from a data directory that is restored from, until
// release is called: it takes a reader's lock of its database, which bbolt does
// not get past. It refuses a directory that an etcd runs on, and one whose losses
// were not accepted. For all other sources it does nothing.
func (s source) hold(t *tool, accepted bool) (release func(), err error) {
	if s.DataDir == "" {
		return func() {}, nil
	}
	f, err := os.Open(s.File)
	if err != nil {
		return nil, cli.WithHint(err, "name a data directory with a readable database")
	}
	release = func() { _ = f.Close() } // nothing was written
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = &cli.RefusedError{
			Text: "an etcd runs on " + s.DataDir,
			Next: "take a snapshot of it, which loses nothing: etcdadm snapshot save FILE --endpoints=URL; if it cannot " +
				"answer because the others are lost, stop it and start it alone, with --force-new-cluster",
		}
	case err != nil:
		err = fmt.Errorf("lock %s: %w", s.File, err)
	case !accepted:
		err = &cli.RefusedError{
			Text: fmt.Sprintf("%s is a data directory: its database has no digest, and the last writes may be only in its "+
				"write-ahead log, which a restore does not read", s.DataDir),
			Next: fmt.Sprintf("to lose nothing, start that member alone (etcd --data-dir=%s --force-new-cluster, with a "+
				"copy of the directory kept) and take a snapshot of it; to do without the last writes: --skip-hash-check",
				s.DataDir),
		}
	}
	if err != nil {
		release()
		return nil, err
	}
	t.say("%s: only its database is read, which may lack the writes of the last few hundred milliseconds",
		s.DataDir)
	return release, nil
}
