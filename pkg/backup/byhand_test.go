package backup_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// What docs/backup-format.md says to do without this project works.
func TestByHand(t *testing.T) {
	for _, tool := range []string{"sh", "gunzip", "zstd", "openssl", "sha256sum", "base64"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	private, public, err := backup.GenerateSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	sign, err := backup.ParseSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	place, scratch, signers := t.TempDir(), t.TempDir(), write(t, string(public))
	s, err := store.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	content := snapshot(1 << 20)
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	for _, compression := range []string{backup.Gzip, backup.Zstd} {
		b := take(t, s, content, backup.TakeOptions{Compression: compression, Signer: sign, Facts: facts()})
		dir := filepath.Join(place, b.Name)
		for _, line := range []string{
			`test "$(head -n -2 _etcdadm_backup.json | sha256sum | cut -c1-64)" = "$(sed -n 's/^  "sum": "\(.*\)"$/\1/p' _etcdadm_backup.json)"`,
			`sed 's/.*"signature":"\([^"]*\)".*/\1/' _etcdadm_backup.sig | base64 -d > "$SCRATCH/sig"`,
			`openssl pkeyutl -verify -rawin -pubin -inkey "$SIGNERS" -in _etcdadm_backup.json -sigfile "$SCRATCH/sig"`,
			`grep -A2 '"object"' _etcdadm_backup.json | grep "$(sha256sum etcd.backup.* | cut -c1-64)"`,
			`test ! -f etcd.backup.gz || test "$(gunzip -c etcd.backup.gz | sha256sum | cut -c1-64)" = ` + sum,
			`test ! -f etcd.backup.zst || test "$(zstd -dc etcd.backup.zst | sha256sum | cut -c1-64)" = ` + sum,
			`grep -A2 '"content"' _etcdadm_backup.json | grep ` + sum,
			`test "$(openssl pkey -pubin -in "$SIGNERS" -outform DER | tail -c 32 | sha256sum | cut -c1-16)" = ` + sign.ID(),
		} {
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", line)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "SCRATCH="+scratch, "SIGNERS="+signers)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
		}
		// Data that these tools have made is read here.
		cmd := exec.CommandContext(t.Context(), "sh", "-ec",
			"gunzip -c etcd.backup.gz > plain || zstd -dc etcd.backup.zst > plain; gzip -9 < plain > again.gz; zstd -q -19 "+
				"plain -o again.zst")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, file := range []string{"again.gz", "again.zst"} {
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			d, err := backup.ExtractFile(filepath.Join(dir, file), out, backup.FetchOptions{})
			if err := errors.Join(err, out.Close()); err != nil || d.Content.SHA256 != sum {
				t.Errorf("%s: %+v, %v", file, d, err)
			}
		}
	}
}
