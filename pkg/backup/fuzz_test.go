package backup_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
)

// Whatever the description file holds, reading it ends, and what is read can
// be written again.
func FuzzReadDescription(f *testing.F) {
	all, d, _ := shelved(f, backup.TakeOptions{}, 4096)
	f.Add(all[d.Name+"/"+retention.DescriptionFile])
	f.Add([]byte(`{"format":1}`))
	f.Add([]byte(`{"format":99}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := backup.ReadDescription(b)
		if err != nil {
			if !errors.Is(err, backup.ErrDamaged) && !errors.Is(err, backup.ErrFormat) {
				t.Error(err)
			}
			return
		}
		again, err := d.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := backup.ReadDescription(again); err != nil || got.Name != d.Name || got.Content != d.Content {
			t.Errorf("%q is read again as %+v, %v", again, got, err)
		}
	})
}

// Whatever a store says of a backup, checking it ends, and nothing is
// believed that does not fit.
func FuzzDescribe(f *testing.F) {
	all, d, _ := shelved(f, backup.TakeOptions{}, 4096)
	f.Add(d.Name, all[d.Name+"/"+retention.MarkerFile], all[d.Name+"/"+retention.DescriptionFile])
	f.Add("../../etc/passwd", []byte(`{"etcdVersion":"3.5.9"}`), []byte(`{}`))
	f.Add("2026-11-20T10:39:37Z-000001", []byte(`{`), []byte(nil))
	f.Fuzz(func(t *testing.T, name string, marker, description []byte) {
		s := shelf{name + "/" + retention.MarkerFile: marker}
		if description != nil {
			s[name+"/"+retention.DescriptionFile] = description
		}
		d, err := backup.Describe(t.Context(), s, name)
		if err == nil && (d.Name != name || d.EtcdVersion.IsZero()) {
			t.Errorf("the backup %q is described as %+v", name, d)
		}
		if err != nil && !errors.Is(err, backup.ErrDamaged) && !errors.Is(err, backup.ErrFormat) {
			t.Error(err)
		}
	})
}

// Whatever a signature file holds, it is not that of a trusted signer.
func FuzzSignature(f *testing.F) {
	all, d, trusted := shelved(f, backup.TakeOptions{}, 4096)
	key := d.Name + "/" + retention.SignatureFile
	right := all[key]
	f.Add(right)
	f.Add([]byte(`{"algorithm":"ed25519","keyID":"` + d.Signer + `","signature":"AAAA"}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := backup.VerifyObject(t.Context(), all.with(key, b), d.Name, backup.FetchOptions{
			Trusted: trusted, RequireSignature: true,
		})
		if same := bytes.Equal(b, right); !same && err == nil &&
			!bytes.Contains(b, []byte(strings.Split(string(right), `"`)[11])) || !same && err != nil &&
			!errors.Is(err, backup.ErrSigner) {
			t.Errorf("%q: %v", b, err)
		}
	})
}

// Whatever the bytes of a data file are, extracting them ends, with bounds, and
// only a whole snapshot is success.
func FuzzExtract(f *testing.F) {
	pair := identity(f)
	for _, o := range []backup.TakeOptions{
		{}, {Compression: backup.Zstd}, {Recipients: pair.to}, {Compression: backup.Zstd, Recipients: pair.to},
	} {
		all, d, _ := shelved(f, o, 4096)
		f.Add(all[d.Name+"/"+d.DataFile()])
	}
	f.Add([]byte("age-encryption.org/v1\n-> X25519"))
	f.Add([]byte("\x28\xb5\x2f\xfd"))
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		d, err := backup.Extract(bytes.NewReader(b), &out, backup.FetchOptions{Keys: pair.keys, MaxBytes: 1 << 20})
		if out.Len() > 1<<20 {
			t.Errorf("%d bytes were written", out.Len())
		}
		if err == nil && (d.Content.Size != int64(out.Len()) || d.Object.Size != int64(len(b))) {
			t.Errorf("%+v is of %d bytes in %d", d, out.Len(), len(b))
		}
		if err == nil {
			if _, err := backup.Extract(bytes.NewReader(b), io.Discard, backup.FetchOptions{Keys: pair.keys}); err != nil {
				t.Errorf("the second time: %v", err)
			}
		}
	})
}
