package migrations

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

// etcd2 is the data directory of an etcd 2 with one key.
func etcd2(t *testing.T) string {
	t.Helper()
	m := etcdtest.New(t, "a")
	m.Flags = nil
	m.Start(t, etcdtest.Binaries(t, "2.3.8"))
	m.V2(t, http.MethodPut, "/registry/a", url.Values{"value": {"x"}})
	m.Stop(t)
	return m.DataDir
}

func call(t *testing.T, args ...string) (r report, text string, err error) {
	t.Helper()
	return heard(t, t.Output(), args...)
}

// heard is call with a place for what is said meanwhile.
func heard(t *testing.T, said io.Writer, args ...string) (r report, text string, err error) {
	t.Helper()
	cmd := New()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(said)
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(t.Context())
	if err == nil && strings.HasPrefix(out.String(), "{") {
		err = json.Unmarshal([]byte(out.String()), &r)
	}
	return r, out.String(), err
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	dir, at := etcd2(t), t.TempDir()
	etcdtest.Finder(t)
	// The version is named: the directory may be of before the cluster had one.
	line := []string{"--data-dir=" + dir, "--backup-store=file://" + at, "--etcd-version=2.3.8", "--cluster-name=main"}
	_, text, err := call(t, append(line, "--dry-run")...)
	if err != nil || !strings.Contains(text, "nothing was written") {
		t.Fatalf("%s, %v", text, err)
	}
	if files, err := os.ReadDir(at); err != nil || len(files) > 0 {
		t.Errorf("the store has %v, %v", files, err)
	}
	r, text, err := call(t, append(line, "-o", "json")...)
	if err != nil || r.V2Keys != 1 || r.V3Keys != 0 || r.Backup == "" || !strings.Contains(text, `"kind": "Migration"`) {
		t.Fatalf("%s, %v", text, err)
	}
	again, _, err := call(t, append(line, "-o", "json")...)
	if err != nil || !again.Before || again.Backup != r.Backup {
		t.Errorf("run again: %+v, %v", again, err)
	}
	// What is to be secret is not found in the clear.
	id, key := keys(t)
	var said strings.Builder
	sealed := []string{"-o", "json", "--encrypt-to=" + id.Recipient().String(), "--sign-key=" + key}
	secret, text, err := heard(t, &said, append(line, sealed...)...)
	if err != nil || secret.Before || secret.Backup == r.Backup || len(secret.Recipients) != 1 || secret.Signer == "" {
		t.Errorf("encrypted and signed: %s, %v", text, err)
	}
	if want := "backup " + r.Backup + " has the same data and is not encrypted"; !strings.Contains(said.String(), want) {
		t.Errorf("%q is not said: %s", want, said.String())
	}
	// Nor is one that is signed for another cluster the same.
	line[3] = "--cluster-name=other"
	other, _, err := call(t, append(line, sealed...)...)
	if err != nil || other.Before || other.Backup == secret.Backup {
		t.Errorf("for another cluster: %+v, %v", other, err)
	}
	st, err := store.Open(t.Context(), "file://"+at)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close(t.Context())
	file, err := os.Create(filepath.Join(t.TempDir(), "snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := backup.Fetch(t.Context(), st, r.Backup, file, backup.FetchOptions{})
	if err = errors.Join(err, file.Close()); err != nil || d.Source != r.Source {
		t.Fatalf("%+v, %v", d, err)
	}
	if s, err := snapshot.Read(t.Context(), file.Name()); err != nil || s.Keys != 1 || !s.Digest {
		t.Errorf("%+v, %v", s, err)
	}
	d, err = backup.Inspect(t.Context(), st, secret.Backup, backup.FetchOptions{})
	if err != nil || d.Encryption != backup.Age || d.Signer != secret.Signer || d.Cluster != "main" {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := os.Stat(dir + ".migrate.db"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}

// keys makes a key pair of age, and the file of a key that signs.
func keys(t *testing.T) (*age.X25519Identity, string) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sign.key")
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return id, file
}

func TestLinesThatAreWrong(t *testing.T) {
	for _, c := range []struct {
		args       []string
		want, kind string
	}{
		{nil, "--data-dir is missing", cli.KindUsage},
		{[]string{"--data-dir=/x"}, "--backup-store is missing", cli.KindUsage},
		{[]string{"--data-dir=/x", "--backup-store=file:///y", "--etcd-version=2"}, "--etcd-version", cli.KindUsage},
		{
			[]string{"--data-dir=/x", "--backup-store=file:///y", "--encrypt-to=age2"}, "--encrypt-to: ", cli.KindUsage,
		},
		{
			[]string{"--data-dir=/x", "--backup-store=file:///y", "--sign-key=/z"}, "--sign-key needs --cluster-name",
			cli.KindUsage,
		},
		{
			[]string{"--data-dir=" + t.TempDir(), "--backup-store=file:///y", "--dry-run"}, "is not a data directory of etcd",
			cli.KindRefused,
		},
	} {
		_, _, err := call(t, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) || cli.Classify(err).Kind != c.kind {
			t.Errorf("%v: %v", c.args, err)
		}
	}
}
