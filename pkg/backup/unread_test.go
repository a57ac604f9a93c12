package backup_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
)

// An unread is a shelf of which one object cannot be read: not at all, or not to its end.
type unread struct {
	shelf
	file  string
	after int
}

func (b unread) Get(ctx context.Context, key string) ([]byte, error) {
	if strings.HasSuffix(key, "/"+b.file) {
		return nil, errDenied
	}
	return b.shelf.Get(ctx, key)
}

func (b unread) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	if !strings.HasSuffix(key, "/"+b.file) {
		return b.shelf.Open(ctx, key)
	}
	if b.after == 0 {
		return nil, errDenied
	}
	head := bytes.NewReader(b.shelf[key][:b.after])
	return io.NopCloser(io.MultiReader(head, iotest.ErrReader(errDenied))), nil
}

// A store that does not answer says nothing about a backup: neither that it is good, nor that it
// is damaged or not signed, after which others would look for what is wrong with it.
func TestAStoreThatFailsSaysNothingOfABackup(t *testing.T) {
	all, d, trusted := shelved(t, backup.TakeOptions{}, 1<<20)
	o := backup.FetchOptions{Trusted: trusted}
	for _, b := range []unread{
		{all, retention.DescriptionFile, 0}, {all, retention.SignatureFile, 0}, {all, d.DataFile(), 0},
		{all, d.DataFile(), 1000}, {all, d.DataFile(), int(d.Object.Size) - 1}, {all, d.DataFile(), int(d.Object.Size)},
	} {
		var fetched bytes.Buffer
		_, fetch := backup.Fetch(t.Context(), b, d.Name, &fetched, o)
		_, verify := backup.Verify(t.Context(), b, d.Name, o)
		_, object := backup.VerifyObject(t.Context(), b, d.Name, o)
		for how, err := range map[string]error{"fetch": fetch, "verify": verify, "verify the object": object} {
			if !errors.Is(err, errDenied) || errors.Is(err, backup.ErrDamaged) || errors.Is(err, backup.ErrSigner) {
				t.Errorf("%s, where %s fails after %d bytes: %v", how, b.file, b.after, err)
			}
		}
	}
	unsigned := unread{all, retention.SignatureFile, 0}
	if _, err := backup.Inspect(t.Context(), unsigned, d.Name, o); !errors.Is(err, errDenied) {
		t.Errorf("inspect without an answer about the signature: %v", err)
	}
}
