package backup_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// signer returns a signing key and a file with its public key.
func signer(t testing.TB) (*backup.Signer, backup.Trusted) {
	t.Helper()
	private, public, err := backup.GenerateSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	s, err1 := backup.ParseSigner(private)
	trusted, err2 := backup.ParseTrusted(public)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return s, trusted
}

func facts() backup.Facts {
	return backup.Facts{
		StorageVersion: etcdversion.Must("3.6.0"), Revision: 41, RaftTerm: 3, RaftIndex: 57, Cluster: "main",
		ClusterID: 0xcdf818194e3a8c32, MemberID: 0x8e9e05c52164694d, MemberName: "etcd-a", Keys: 12,
	}
}

// take takes a backup of content.
func take(t testing.TB, s *store.Store, content []byte, o backup.TakeOptions) cluster.Backup {
	t.Helper()
	o.Source, o.Store = stream(bytes.NewReader(content)), s
	if o.Info.EtcdVersion.IsZero() {
		o.Info = info()
	}
	b, err := backup.Take(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestForms(t *testing.T) {
	content := snapshot(700 << 10)
	keys, sign, signed := identity(t), (*backup.Signer)(nil), backup.Trusted(nil)
	sign, signed = signer(t)
	for _, compression := range []string{"", backup.Gzip, backup.Zstd} {
		for _, encrypted := range []bool{false, true} {
			for _, isSigned := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s encrypted=%t signed=%t", compression, encrypted, isSigned), func(t *testing.T) {
					s := memory(t)
					o := backup.TakeOptions{Facts: facts(), Compression: compression, Tool: "test 1.0"}
					if encrypted {
						o.Recipients = keys.to
					}
					if isSigned {
						o.Signer = sign
					}
					b := take(t, s, content, o)
					want := backup.Description{
						Format: 1, Name: b.Name, Info: info(), Facts: facts(), Compression: compression, Tool: "test 1.0",
						Signed: isSigned, Trusted: isSigned,
					}
					want.At = b.At
					file := retention.DataFile
					switch compression {
					case "":
						want.Compression = backup.Gzip
					case backup.Zstd:
						file = retention.ZstdFile
					}
					if encrypted {
						file += retention.EncryptedSuffix
						want.Encryption, want.Recipients = backup.Age, []string{keys.to[0].String()}
					}
					if isSigned {
						want.Signer = sign.ID()
					}
					fetch := backup.FetchOptions{Keys: keys.keys}
					if isSigned {
						fetch.Trusted = signed
					}
					var out bytes.Buffer
					got, err := backup.Fetch(t.Context(), s, b.Name, &out, fetch)
					if err != nil || !bytes.Equal(out.Bytes(), content) {
						t.Fatalf("fetched %d of %d bytes: %v", out.Len(), len(content), err)
					}
					if got.Content.Size != int64(len(content)) || got.Object.Size != b.Size || b.Encrypted != encrypted {
						t.Errorf("%+v is of %+v", b, got)
					}
					if got.DataFile() != file {
						t.Errorf("the data is in %s, want %s", got.DataFile(), file)
					}
					want.Content, want.Object, want.Marker = got.Content, got.Object, got.Marker
					if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
						t.Errorf("the description is\n%+v, want\n%+v", got, want)
					}
					if d, err := backup.VerifyObject(t.Context(), s, b.Name, backup.FetchOptions{}); err != nil || d.Name != b.Name {
						t.Errorf("without a key: %+v, %v", d, err)
					}
					object, err := s.Open(t.Context(), b.Name+"/"+file)
					if err != nil {
						t.Fatal(err)
					}
					defer object.Close()
					path := filepath.Join(t.TempDir(), "data")
					raw, err := io.ReadAll(object)
					if err := errors.Join(err, os.WriteFile(path, raw, 0o600)); err != nil {
						t.Fatal(err)
					}
					out.Reset()
					bare, err := backup.ExtractFile(path, &out, backup.FetchOptions{Keys: keys.keys})
					if err != nil || !bytes.Equal(out.Bytes(), content) || bare.Content != got.Content ||
						bare.Compression != want.Compression || bare.Encryption != want.Encryption {
						t.Errorf("the bare file: %+v, %v", bare, err)
					}
				})
			}
		}
	}
}

// Every recipient can read a backup, and the keys of a rotation are all tried.
func TestRecipients(t *testing.T) {
	s, content := memory(t), snapshot(1<<16)
	a, b, c := identity(t), identity(t), identity(t)
	quantum, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	pq := pairOf(t, quantum.Recipient().String(), quantum.String())
	for name, p := range map[string]struct {
		to   []backup.Recipient
		keys []backup.Identity
	}{
		"the first":                  {slices.Concat(a.to, b.to), a.keys},
		"the second":                 {slices.Concat(a.to, b.to), b.keys},
		"an old and a new key":       {a.to, slices.Concat(c.keys, b.keys, a.keys)},
		"post-quantum":               {pq.to, pq.keys},
		"an ssh key":                 {sshPair(t).to, sshPair(t).keys},
		"an ssh key and another one": {slices.Concat(sshPair(t).to, a.to), slices.Concat(c.keys, sshPair(t).keys)},
	} {
		got := take(t, s, content, backup.TakeOptions{Recipients: p.to})
		d, err := backup.Verify(t.Context(), s, got.Name, backup.FetchOptions{Keys: p.keys})
		if err != nil || len(d.Recipients) != len(p.to) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		for i, r := range d.Recipients {
			if r != p.to[i].String() || len(r) > 100 {
				t.Errorf("%s: recipient %d is called %s", name, i, r)
			}
		}
		for which, keys := range map[string][]backup.Identity{"no key": nil, "another key": c.keys} {
			if name == "an ssh key and another one" && which == "another key" {
				keys = pq.keys
			}
			_, err = backup.Verify(t.Context(), s, got.Name, backup.FetchOptions{Keys: keys})
			if !errors.Is(err, backup.ErrKey) || errors.Is(err, backup.ErrDamaged) ||
				!strings.Contains(err.Error(), d.Recipients[0][:16]) {
				t.Errorf("%s with %s: %v", name, which, err)
			}
		}
	}
	if _, err := backup.Take(t.Context(), backup.TakeOptions{
		Source: stream(bytes.NewReader(content)), Store: s, Info: info(), Recipients: slices.Concat(a.to, pq.to),
	}); err == nil || !strings.Contains(err.Error(), "encrypt") {
		t.Errorf("post-quantum together with what is not: %v", err)
	}
}

func TestSigners(t *testing.T) {
	s, content := memory(t), snapshot(1<<16)
	one, trustOne := signer(t)
	_, trustTwo := signer(t)
	signed := take(t, s, content, backup.TakeOptions{Signer: one, Facts: backup.Facts{Cluster: "main"}})
	unsigned := take(t, s, content, backup.TakeOptions{})
	stripped := take(t, s, content, backup.TakeOptions{Signer: one})
	if err := s.Delete(t.Context(), stripped.Name+"/"+retention.SignatureFile); err != nil {
		t.Fatal(err)
	}
	// Somebody writes a backup in the name of another.
	forged := take(t, s, content, backup.TakeOptions{Signer: one})
	move(t, s, signed.Name+"/"+retention.SignatureFile, forged.Name+"/"+retention.SignatureFile)
	both := slices.Concat(trustTwo, trustOne)
	for name, c := range map[string]struct {
		backup  string
		o       backup.FetchOptions
		want    error
		text    string
		trusted bool
	}{
		"signed, nobody asks": {backup: signed.Name},
		"signed, by one of two": {
			backup: signed.Name, o: backup.FetchOptions{Trusted: both, RequireSignature: true}, trusted: true,
		},
		"signed, not required": {
			backup: signed.Name, o: backup.FetchOptions{Trusted: both}, trusted: true,
		},
		"signed by another": {
			backup: signed.Name, o: backup.FetchOptions{Trusted: trustTwo, RequireSignature: true}, want: backup.ErrSigner,
			text: one.ID(),
		},
		"signed by another, not required": {
			backup: signed.Name, o: backup.FetchOptions{Trusted: trustTwo}, want: backup.ErrSigner, text: one.ID(),
		},
		"signed, nobody trusted": {
			backup: signed.Name, o: backup.FetchOptions{RequireSignature: true}, want: backup.ErrSigner, text: one.ID(),
		},
		"not signed": {
			backup: unsigned.Name, o: backup.FetchOptions{Trusted: both, RequireSignature: true}, want: backup.ErrSigner,
			text: "not signed",
		},
		"not signed, not required": {
			backup: unsigned.Name, o: backup.FetchOptions{Trusted: both}, want: backup.ErrSigner, text: "not signed",
		},
		"signed, of this cluster": {
			backup: signed.Name, o: backup.FetchOptions{Trusted: both, Cluster: "main"}, trusted: true,
		},
		"signed, of another cluster": {
			backup: signed.Name, o: backup.FetchOptions{Trusted: both, Cluster: "events"}, want: backup.ErrSigner,
			text: `a backup of "main", not of "events"`,
		},
		"signature taken away": {
			backup: stripped.Name, o: backup.FetchOptions{Trusted: both}, want: backup.ErrSigner, text: "is missing",
		},
		"signature of another backup": {
			backup: forged.Name, o: backup.FetchOptions{Trusted: both, RequireSignature: true}, want: backup.ErrSigner,
			text: "does not match",
		},
		"signature of another one, not required": {
			backup: forged.Name, o: backup.FetchOptions{Trusted: both}, want: backup.ErrSigner, text: one.ID(),
		},
		"signature of another one, nobody trusts": {backup: forged.Name},
	} {
		d, err := backup.Verify(t.Context(), s, c.backup, c.o)
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.text) || err == nil &&
			d.Trusted != c.trusted {
			t.Errorf("%s: trusted %t, %v", name, d.Trusted, err)
		}
		if d, again := backup.Inspect(t.Context(), s, c.backup, c.o); !errors.Is(again, c.want) || again == nil &&
			d.Trusted != c.trusted {
			t.Errorf("%s: inspected: trusted %t, %v", name, d.Trusted, again)
		}
	}
	if _, err := backup.Extract(bytes.NewReader(zipped(content)), io.Discard, backup.FetchOptions{
		RequireSignature: true,
	}); !errors.Is(err, backup.ErrSigner) {
		t.Errorf("a bare file: %v", err)
	}
}

// move puts the content of an object in place of another.
func move(t testing.TB, s *store.Store, from, to string) {
	t.Helper()
	b, err := s.Get(t.Context(), from)
	if err == nil {
		err = s.Put(t.Context(), to, b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What the existing tool has taken has a marker and data, and nothing else.
func TestBackupsOfTheExistingTool(t *testing.T) {
	s, content := memory(t), snapshot(1<<16)
	for name, marker := range map[string]string{
		"2024-02-03T04:05:06Z-000001": `{"etcdVersion":  "3.5.9",  "timestamp":  "1706933106",  "clusterSpec":  {"memberCount":  3,  "etcdVersion":  "3.5.9"}}`,
		"2019-02-03T04:05:06Z-000001": "{\n  \"etcd_version\": \"3.5.9\",\n  \"timestamp\": \"1549166706\",\n  " +
			"\"cluster_spec\": {\n    \"member_count\": 3\n  }\n}",
	} {
		if err := errors.Join(s.Put(t.Context(), name+"/"+retention.DataFile, zipped(content)),
			s.Put(t.Context(), name+"/"+retention.MarkerFile, []byte(marker))); err != nil {
			t.Fatal(err)
		}
		d, err := backup.Describe(t.Context(), s, name)
		if err != nil || d.Name != name || d.EtcdVersion != etcdversion.Must("3.5.9") || d.MemberCount != 3 || d.Keys != -1 ||
			d.Format != 0 || d.Signed || !d.Content.IsZero() {
			t.Errorf("%+v, %v", d, err)
		}
		var out bytes.Buffer
		d, err = backup.Fetch(t.Context(), s, name, &out, backup.FetchOptions{})
		if err != nil || !bytes.Equal(out.Bytes(), content) || d.Compression != backup.Gzip ||
			d.Content.Size != int64(len(content)) || d.Object.Size == 0 {
			t.Errorf("%+v, %v", d, err)
		}
		if _, err := backup.VerifyObject(t.Context(), s, name, backup.FetchOptions{}); !errors.Is(err, backup.ErrKey) {
			t.Errorf("only its object: %v", err)
		}
		if _, err := backup.Verify(t.Context(), s, name, backup.FetchOptions{RequireSignature: true}); !errors.Is(err,
			backup.ErrSigner) {
			t.Errorf("signed: %v", err)
		}
	}
}

// A backup whose description was lost is as good as one of the existing tool.
func TestLostDescription(t *testing.T) {
	keys := identity(t)
	for _, compression := range []string{backup.Gzip, backup.Zstd} {
		for _, to := range [][]backup.Recipient{nil, keys.to} {
			s := memory(t)
			b := take(t, s, snapshot(1<<16), backup.TakeOptions{Compression: compression, Recipients: to})
			if err := s.Delete(t.Context(), b.Name+"/"+retention.DescriptionFile); err != nil {
				t.Fatal(err)
			}
			d, err := backup.Verify(t.Context(), s, b.Name, backup.FetchOptions{Keys: keys.keys})
			if err != nil || d.Compression != compression || (d.Encryption == "") != (to == nil) {
				t.Errorf("%+v, %v", d, err)
			}
		}
	}
}
