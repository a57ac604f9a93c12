package backups

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

var span = regexp.MustCompile(`\d+(\.\d+)?m?s`)

func TestVerify(t *testing.T) {
	l := newStoreDir(t)
	good := kubernetes().Snapshot(t)
	l.add(first, good)
	bad := append([]byte(nil), good...)
	bad[5000] ^= 1
	l.add(second, bad)
	l.add(third, good)
	golden(t, "verify.txt", span.ReplaceAllString(l.must("verify", "--latest"), "SPAN"))
	r := l.run("verify", "--all")
	golden(t, "verify-all.txt", span.ReplaceAllString(r.out+r.errors, "SPAN"))
	if r.code != 1 {
		t.Errorf("the exit code is %d", r.code)
	}
	l.fails(1, "find a good backup", "verify", second)
	l.fails(1, "1 of 2 backups are damaged, 0 could not be checked", "verify", first, second)
	l.fails(1, "1 of 2 backups could not be checked", "verify", first, "2026-01-01T00:00:00Z-000001")
	var verdicts []map[string]any
	if err := json.Unmarshal([]byte(l.must("verify", first, "-o", "json")), &verdicts); err != nil || len(verdicts) != 1 ||
		verdicts[0]["result"] != whole || verdicts[0]["keys"] != 14.0 {
		t.Errorf("%v, %v", verdicts, err)
	}
	out := l.must("list-backups", "-o", "json")
	if strings.Count(out, `"verified"`) != 2 || strings.Count(out, `"suspect": true`) != 1 ||
		strings.Contains(out, `"damaged"`) {
		t.Error(out)
	}
	// The operator's word needs no second machine.
	l.fails(1, "find a good backup", "verify", second, "--declare-damaged")
	if out := l.must("list-backups", "-o", "json"); strings.Count(out, `"damaged": true`) != 1 ||
		strings.Contains(out, `"suspect"`) {
		t.Error(out)
	}
}

func TestVerifyOfFiles(t *testing.T) {
	l := newStoreDir(t)
	good := kubernetes().File(t)
	l.add(first, kubernetes().Snapshot(t))
	for _, name := range []string{
		good, filepath.Join(l.dir, first), filepath.Join(l.dir, first, retention.DataFile), "file://" + l.dir + "/" + first,
	} {
		if out := l.must("verify", name); !strings.Contains(out, whole) {
			t.Errorf("%s: %s", name, out)
		}
	}
	f, err := os.OpenFile(good, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt([]byte("x"), 9000)
	}
	if err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	l.fails(1, "digest is wrong", "verify", good)
	l.fails(7, "no signature", "verify", good, "--require-signature", "--trusted-signers="+signer(t))
}

// signer writes the public key of somebody.
func signer(t *testing.T) string {
	t.Helper()
	_, public, err := backup.GenerateSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "signers.pem")
	if err := os.WriteFile(path, public, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// etcd is a source of backups.
type etcd []byte

func (e etcd) Snapshot(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(string(e))), nil
}

// encrypted takes an encrypted and signed backup, and returns its name, the
// file with the key and that with the signer.
func encrypted(t *testing.T, l *storeDir) (name, key, signers string) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	to, err := backup.ParseRecipient(id.Recipient().String())
	if err != nil {
		t.Fatal(err)
	}
	private, public, err := backup.GenerateSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	by, err := backup.ParseSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	b, err := backup.Take(t.Context(), backup.TakeOptions{
		Source: etcd(kubernetes().Snapshot(t)), Store: l.store, Recipients: []backup.Recipient{to}, Signer: by,
		Compression: backup.Zstd,
		Info:        backup.Info{EtcdVersion: etcdversion.Must("3.6.16"), At: l.now},
		Facts:       backup.Facts{Revision: 17},
	})
	if err != nil {
		t.Fatal(err)
	}
	key, signers = filepath.Join(t.TempDir(), "key.txt"), filepath.Join(t.TempDir(), "signers.pem")
	if err := os.WriteFile(key, []byte(id.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(signers, public, 0o600); err != nil {
		t.Fatal(err)
	}
	return b.Name, key, signers
}

func TestEncryptedAndSigned(t *testing.T) {
	l := newStoreDir(t)
	name, key, signers := encrypted(t, l)
	l.fails(7, "--decrypt-key", "verify", name)
	l.fails(7, "--trusted-signers", "verify", name, "--decrypt-key="+key, "--require-signature",
		"--trusted-signers="+signer(t))
	l.fails(7, "no backup in the store counts", "verify", "--latest", "--decrypt-key="+key, "--trusted-signers="+signer(t))
	if got := l.must("list-backups", "--trusted-signers="+signers); !strings.Contains(got, name) {
		t.Errorf("with the signer the list is %q", got)
	}
	if got := l.run("list-backups", "--trusted-signers="+signer(t)); strings.Contains(got.out, name) ||
		!strings.Contains(got.errors, "do not count") {
		t.Errorf("with another signer the list is %+v", got)
	}
	if out := l.must("verify", name, "--object-only"); !strings.Contains(out, objectGood) {
		t.Error(out)
	}
	if out := l.must("list-backups", "-o", "json"); strings.Contains(out, `"verified"`) ||
		!strings.Contains(out, `"encrypted": true`) || !strings.Contains(out, `"revision": 17`) {
		t.Error(out)
	}
	out := l.must("verify", name, "--decrypt-key="+key, "--require-signature", "--trusted-signers="+signers, "-o", "json")
	if !strings.Contains(out, `"signer"`) || !strings.Contains(out, `"result": "whole"`) {
		t.Error(out)
	}
	if out := l.must("verify", "--latest", "--decrypt-key="+key, "--trusted-signers="+signers); !strings.Contains(out,
		name) {
		t.Error(out)
	}
	if out := l.must("dump", name, "--decrypt-key="+key, "--keys-only",
		"--prefix=/coreos"); out != "/coreos.com/network/config\n" {
		t.Error(out)
	}
	// The data alone says what it is, too.
	file := filepath.Join(l.dir, name, retention.ZstdFile+retention.EncryptedSuffix)
	if out := l.must("dump", file, "--decrypt-key="+key, "--keys-only",
		"--prefix=/coreos"); out != "/coreos.com/network/config\n" {
		t.Error(out)
	}
	l.fails(7, "--decrypt-key", "dump", file)
	// One byte of the object.
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	l.fails(1, "damaged", "verify", name, "--object-only")
	if out := l.must("list-backups", "-o", "json"); !strings.Contains(out, `"suspect": true`) {
		t.Error(out)
	}
}

func TestDrill(t *testing.T) {
	etcdtest.Finder(t)
	l := newStoreDir(t)
	l.add(first, kubernetes().Snapshot(t))
	rest := regexp.MustCompile(`\d+(\.\d+)? (K|M|G)iB`)
	out := rest.ReplaceAllString(span.ReplaceAllString(l.must("drill", "--latest"), "SPAN"), "SIZE")
	golden(t, "drill.txt", out)
	if out := l.must("list-backups", "-o", "json"); !strings.Contains(out, `"drilled"`) {
		t.Error(out)
	}
	file := kubernetes().File(t)
	if out := l.must("drill", file, "-o", "json"); !strings.Contains(out, `"keys": 14`) ||
		!strings.Contains(out, `"hashCompared": true`) || !strings.Contains(out, file) {
		t.Error(out)
	}
	l.fails(1, "etcdadm download --version=3.9.987654", "drill", file, "--version=3.9.987654")
}
