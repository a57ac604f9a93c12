package backup_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// shelf is a library of a few objects.
type shelf map[string][]byte

func (s shelf) Get(_ context.Context, key string) ([]byte, error) {
	if b, ok := s[key]; ok {
		return b, nil
	}
	return nil, store.ErrAbsent
}

func (s shelf) Exists(_ context.Context, key string) (bool, error) { return s[key] != nil, nil }

func (s shelf) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	b, err := s.Get(ctx, key)
	return io.NopCloser(bytes.NewReader(b)), err
}

// with returns s with another object.
func (s shelf) with(key string, b []byte) shelf {
	all := shelf{key: b}
	for k, v := range s {
		if k != key {
			all[k] = v
		}
	}
	return all
}

// objects reads all objects of a backup.
func objects(t testing.TB, s *store.Store, d backup.Description) shelf {
	t.Helper()
	all := shelf{}
	for _, file := range []string{d.DataFile(), retention.DescriptionFile, retention.SignatureFile, retention.MarkerFile} {
		b, err := s.Get(t.Context(), d.Name+"/"+file)
		if err != nil {
			t.Fatal(err)
		}
		all[d.Name+"/"+file] = b
	}
	return all
}

// shelved takes a signed backup.
func shelved(t testing.TB, o backup.TakeOptions, size int) (shelf, backup.Description, backup.Trusted) {
	t.Helper()
	var trusted backup.Trusted
	o.Signer, trusted = signer(t)
	o.Facts = facts()
	s := memory(t)
	b := take(t, s, snapshot(size), o)
	d, err := backup.Describe(t.Context(), s, b.Name)
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, s, d), d, trusted
}

// forms calls f for each form of data.
func forms(t *testing.T, f func(t *testing.T, o backup.TakeOptions, keys []backup.Identity)) {
	t.Helper()
	pair := identity(t)
	for name, o := range map[string]backup.TakeOptions{
		"gzip": {Compression: backup.Gzip}, "zstd": {Compression: backup.Zstd},
		"gzip in age": {Compression: backup.Gzip, Recipients: pair.to}, "zstd in age": {
			Compression: backup.Zstd, Recipients: pair.to,
		},
	} {
		t.Run(name, func(t *testing.T) { f(t, o, pair.keys) })
	}
}

// Whatever byte of whatever object is wrong, it is found.
func TestFlippedBytes(t *testing.T) {
	forms(t, func(t *testing.T, o backup.TakeOptions, keys []backup.Identity) {
		all, d, trusted := shelved(t, o, 8192)
		check := backup.FetchOptions{Keys: keys, Trusted: trusted}
		if _, err := backup.Verify(t.Context(), all, d.Name, check); err != nil {
			t.Fatal(err)
		}
		for key, content := range all {
			step := max(1, len(content)/120)
			for i := 0; i < len(content); i += step {
				for _, bit := range []byte{0x01, 0x20, 0x80} {
					wrong := bytes.Clone(content)
					wrong[i] ^= bit
					_, err := backup.Verify(t.Context(), all.with(key, wrong), d.Name, check)
					switch {
					case err == nil:
						t.Fatalf("byte %d of %d of %s is wrong, which is not found", i, len(content), key)
					// The part of age's header that is for a key, and what says whom to ask.
					case errors.Is(err, backup.ErrKey) && d.Encryption != "" && i < 250, errors.Is(err, backup.ErrSigner),
						errors.Is(err, backup.ErrFormat):
					case !errors.Is(err, backup.ErrDamaged):
						t.Fatalf("byte %d of %s: %v", i, key, err)
					}
				}
			}
		}
	})
}

// Without a key or a trusted signer, only what these protect is not found.
func TestFlippedBytesWithoutKeys(t *testing.T) {
	pair := identity(t)
	all, d, _ := shelved(t, backup.TakeOptions{Recipients: pair.to}, 4096)
	for key, content := range all {
		if strings.HasSuffix(key, retention.SignatureFile) {
			continue
		}
		for i := range content {
			wrong := bytes.Clone(content)
			wrong[i] ^= 0x04
			if _, err := backup.VerifyObject(t.Context(), all.with(key, wrong), d.Name, backup.FetchOptions{}); !errors.Is(err,
				backup.ErrDamaged) && !errors.Is(err, backup.ErrFormat) {
				t.Fatalf("byte %d of %d of %s: %v", i, len(content), key, err)
			}
		}
	}
}

func TestCutAndExtended(t *testing.T) {
	forms(t, func(t *testing.T, o backup.TakeOptions, keys []backup.Identity) {
		all, d, trusted := shelved(t, o, 300<<10)
		check := backup.FetchOptions{Keys: keys, Trusted: trusted}
		for key, content := range all {
			var others [][]byte
			for _, n := range []int{0, 1, 2, 21, 22, 200, len(content) / 2, len(content) - 1} {
				if n < len(content) {
					others = append(others, content[:n])
				}
			}
			for _, more := range []string{"\x00", "x", strings.Repeat("more", 1000), string(content)} {
				others = append(others, append(bytes.Clone(content), more...))
			}
			for i, other := range others {
				_, err := backup.Verify(t.Context(), all.with(key, other), d.Name, check)
				if !errors.Is(err, backup.ErrDamaged) && !errors.Is(err, backup.ErrSigner) {
					t.Errorf("%s of %d instead of %d bytes (case %d): %v", key, len(other), len(content), i, err)
				}
				// A bare file has only the digest of etcd, and the ends of its streams.
				if !strings.HasSuffix(key, d.DataFile()) {
					continue
				}
				if _, err := backup.Extract(bytes.NewReader(other), io.Discard, backup.FetchOptions{Keys: keys}); !errors.Is(err,
					backup.ErrDamaged) {
					t.Errorf("a bare file of %d instead of %d bytes (case %d): %v", len(other), len(content), i, err)
				}
			}
		}
	})
}

// Parts of one backup in another are damage, whole as they are.
func TestSwappedObjects(t *testing.T) {
	one, trusted := signer(t)
	s, pair := memory(t), identity(t)
	for _, file := range []string{
		retention.DataFile + retention.EncryptedSuffix, retention.DescriptionFile, retention.SignatureFile,
		retention.MarkerFile,
	} {
		from := take(t, s, snapshot(8192), backup.TakeOptions{Recipients: pair.to, Signer: one})
		later := info()
		later.At = at.AddDate(0, 0, 1)
		to := take(t, s, snapshot(4096), backup.TakeOptions{Recipients: pair.to, Signer: one, Info: later})
		move(t, s, from.Name+"/"+file, to.Name+"/"+file)
		_, err := backup.Verify(t.Context(), s, to.Name, backup.FetchOptions{Keys: pair.keys, Trusted: trusted})
		if want := map[bool]error{
			true: backup.ErrSigner, false: backup.ErrDamaged,
		}[file == retention.SignatureFile]; !errors.Is(err, want) {
			t.Errorf("%s of another backup: %v", file, err)
		}
		_, err = backup.Verify(t.Context(), s, from.Name, backup.FetchOptions{Keys: pair.keys, Trusted: trusted})
		if err != nil {
			t.Errorf("the other backup: %v", err)
		}
	}
}

func TestMissingObjects(t *testing.T) {
	all, d, _ := shelved(t, backup.TakeOptions{}, 4096)
	for _, file := range []string{d.DataFile(), retention.MarkerFile} {
		less := all.with(d.Name+"/"+file, nil)
		delete(less, d.Name+"/"+file)
		if _, err := backup.Verify(t.Context(), less, d.Name, backup.FetchOptions{}); !errors.Is(err, store.ErrAbsent) {
			t.Errorf("without %s: %v", file, err)
		}
	}
}

// zeros compresses as well as anything can.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// bomb returns a few bytes that become many.
func bomb(t *testing.T, compression string, size int64) []byte {
	t.Helper()
	var out bytes.Buffer
	var z io.WriteCloser = gzip.NewWriter(&out)
	if compression == backup.Zstd {
		var err error
		if z, err = zstd.NewWriter(&out); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.CopyN(z, zeros{}, size); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// limited fails the test if more than some bytes are written.
type limited struct {
	t   *testing.T
	max int64
	n   int64
}

func (l *limited) Write(p []byte) (int, error) {
	if l.n += int64(len(p)); l.n > l.max {
		l.t.Errorf("%d bytes were written, at most %d should have been", l.n, l.max)
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestBombs(t *testing.T) {
	for _, compression := range []string{backup.Gzip, backup.Zstd} {
		b := bomb(t, compression, 24<<20)
		_, err := backup.Extract(bytes.NewReader(b), &limited{t: t, max: 4<<20 + 100*int64(len(b))}, backup.FetchOptions{})
		if !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), "100 times") {
			t.Errorf("%s without a description: %v", compression, err)
		}
		_, err = backup.Extract(bytes.NewReader(b), &limited{t: t, max: 1 << 20}, backup.FetchOptions{MaxBytes: 1 << 20})
		if err == nil || !strings.Contains(err.Error(), "1048576") {
			t.Errorf("%s with a limit: %v", compression, err)
		}
		// In place of a backup's data it may be no larger than that was.
		all, d, _ := shelved(t, backup.TakeOptions{Compression: compression}, 64<<10)
		_, err = backup.Fetch(t.Context(), all.with(d.Name+"/"+d.DataFile(), b), d.Name, &limited{t: t, max: d.Content.Size},
			backup.FetchOptions{})
		if !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("%s with a description: %v", compression, err)
		}
		_, err = backup.Fetch(t.Context(), all, d.Name, &limited{t: t}, backup.FetchOptions{MaxBytes: 4096})
		if err == nil || errors.Is(err, backup.ErrDamaged) {
			t.Errorf("%s that is larger than allowed: %v", compression, err)
		}
	}
	// An object without end is not read to its end.
	all, d, _ := shelved(t, backup.TakeOptions{}, 64<<10)
	endless := endlessShelf{all, d.Name + "/" + d.DataFile()}
	if _, err := backup.Fetch(t.Context(), endless, d.Name, io.Discard, backup.FetchOptions{}); !errors.Is(err,
		backup.ErrDamaged) {
		t.Error(err)
	}
	if _, err := backup.VerifyObject(t.Context(), endless, d.Name, backup.FetchOptions{}); !errors.Is(err,
		backup.ErrDamaged) {
		t.Error(err)
	}
}

// endlessShelf has an object that does not end.
type endlessShelf struct {
	shelf
	key string
}

func (s endlessShelf) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	r, err := s.shelf.Open(ctx, key)
	if key == s.key {
		r = io.NopCloser(io.MultiReader(r, zeros{}))
	}
	return r, err
}

// What a later version writes in a way that this one would misread is no
// damage.
func TestLaterFormat(t *testing.T) {
	later := []byte("{\"format\": 2, \"name\": {\"all\": \"is different\"}}")
	if _, err := backup.ReadDescription(later); !errors.Is(err, backup.ErrFormat) || errors.Is(err, backup.ErrDamaged) {
		t.Error(err)
	}
}

func TestReadDescription(t *testing.T) {
	all, d, _ := shelved(t, backup.TakeOptions{}, 4096)
	file := all[d.Name+"/"+retention.DescriptionFile]
	again, err := d.Encode()
	if err != nil || !bytes.Equal(again, file) {
		t.Errorf("it is written again as\n%s, %v, was\n%s", again, err, file)
	}
	for name, change := range map[string]func(d *backup.Description){
		"no name":               func(d *backup.Description) { d.Name = "" },
		"no format":             func(d *backup.Description) { d.Format = 0 },
		"no version":            func(d *backup.Description) { d.EtcdVersion = backup.Info{}.EtcdVersion },
		"no compression":        func(d *backup.Description) { d.Compression = "" },
		"an unknown encryption": func(d *backup.Description) { d.Encryption = "rot13" },
		"no content":            func(d *backup.Description) { d.Content = backup.Digest{} },
		"a negative size":       func(d *backup.Description) { d.Object.Size = -1 },
		"a digest of something": func(d *backup.Description) { d.Object.SHA256 = strings.Repeat("G", 64) },
		"a short digest":        func(d *backup.Description) { d.Marker.SHA256 = "00" },
	} {
		wrong := d
		change(&wrong)
		b, err := wrong.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := backup.ReadDescription(b); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
