package backup_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"filippo.io/age"
	"golang.org/x/crypto/ssh"

	"github.com/etcdadm/etcdadm/pkg/backup"
)

// A pair is a key and its recipient.
type pair struct {
	to   []backup.Recipient
	keys []backup.Identity
	// file has the secret key.
	file string
}

func identity(t testing.TB) pair {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return pairOf(t, key.Recipient().String(), key.String())
}

func pairOf(t testing.TB, public, secret string) pair {
	t.Helper()
	to, err := backup.ParseRecipient(public)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := backup.ReadIdentities(file)
	if err != nil {
		t.Fatal(err)
	}
	return pair{[]backup.Recipient{to}, keys, file}
}

// sshKey is a key as ssh-keygen makes them: a public and a secret file.
var sshKey = sync.OnceValues(func() (public, secret string) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	block, err1 := ssh.MarshalPrivateKey(key, "comment")
	wire, err2 := ssh.NewPublicKey(pub)
	if err := errors.Join(err1, err2); err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(wire))) + " comment", string(pem.EncodeToMemory(block))
})

func sshPair(t testing.TB) pair {
	t.Helper()
	public, secret := sshKey()
	return pairOf(t, public, secret)
}

func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadRecipients(t *testing.T) {
	sshPublic, _ := sshKey()
	const good = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
	got, err := backup.ReadRecipients(write(t, "# ours\n\n  "+good+" \r\n"), write(t, sshPublic))
	if err != nil || len(got) != 2 || got[0].String() != good || !strings.HasPrefix(got[1].String(), "ssh-ed25519 AAAA") ||
		strings.Contains(got[1].String(), "comment") {
		t.Errorf("%v, %v", got, err)
	}
	for content, want := range map[string]string{
		"":                              "has none",
		"# nothing\n":                   "has none",
		good + "\n\n" + good[:40]:       ":3: ",
		good + "x":                      ":1: ",
		"AGE-SECRET-KEY-1QQQ":           "age-keygen -y",
		"ssh-dss AAAA":                  ":1: ",
		"ssh-ed25519":                   ":1: ",
		"age1yubikey1qqqqqqqqqqqqqqqqq": `" is not a recipient`,
	} {
		path := write(t, content)
		if got, err := backup.ReadRecipients(path); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%q is read as %v, %v", content, got, err)
		}
	}
	if _, err := backup.ReadRecipients(t.TempDir() + "/none"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestRecipientsOfBothKinds(t *testing.T) {
	one, two := identity(t).to[0].String(), identity(t).to[0].String()
	got, err := backup.Recipients(one, write(t, "# more\n"+two+"\n"+one))
	if err != nil || len(got) != 3 || got[0].String() != one || got[1].String() != two {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		"age1nothing":                      "it must be age1",
		"/none/such":                       "it must be age1",
		write(t, "nothing"):                ":1: ",
		"AGE-SECRET-KEY-1" + "QQQQQQQQQQQ": "secret key",
	} {
		if got, err := backup.Recipients(one, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is read as %v, %v", text, got, err)
		}
	}
}

func TestReadIdentities(t *testing.T) {
	_, sshSecret := sshKey()
	const secret = "AGE-SECRET-KEY-184JMZMVQH3E6U0PSL869004Y3U2NYV7R30EU99CSEDNPH02YUVFSZW44VU"
	got, err := backup.ReadIdentities(write(t, "# created\n"+secret+"\n"+secret+"\n"), write(t, sshSecret))
	if err != nil || len(got) != 3 {
		t.Errorf("%d keys, %v", len(got), err)
	}
	for content, want := range map[string]string{
		"":                             "has no key",
		secret + "\n#\n" + secret[:40]: ":3: ",
		"age1ql3z7hjy54pw3":            "public key",
		"ssh-ed25519 AAAA":             "public key",
		"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----": "ssh private key",
	} {
		path := write(t, content)
		_, err := backup.ReadIdentities(path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) ||
			strings.Contains(err.Error(), "184JMZ") {
			t.Errorf("%q: %v", content, err)
		}
	}
	if _, err := backup.ReadIdentities(t.TempDir()); err == nil {
		t.Error("a directory was read as a file of keys")
	}
}

func TestReadSigners(t *testing.T) {
	private, public, err := backup.GenerateSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	_, second, err := backup.GenerateSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	s, err1 := backup.ReadSigner(write(t, string(private)))
	trusted, err2 := backup.ReadTrusted(write(t, "ours:\n"+string(public)+string(second)), write(t, string(second)))
	if err := errors.Join(err1, err2); err != nil || len(trusted) != 3 || trusted.IDs()[0] != s.ID() || len(s.ID()) != 16 {
		t.Errorf("%v, %v", trusted, err)
	}
	ecKey := "-----BEGIN PRIVATE " +
		"KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgevZzL1gdAFr88hb2\nOF/2NxApJCzGCEDdfSp6VQO30hyhRANCAAQRWz+jn65BtOMvdyHKcvjBeBSDZH2r\n1RTwjmYSi9R/zpBnuQ4EiMnCqfMPWiZqB4QdbAd0E7oH50VpuZ1P087G\n-----END PRIVATE KEY-----\n"
	for content, want := range map[string]string{
		"": "not a PEM file", string(public): "public key", ecKey: "its key is not an ed25519 key (openssl genpkey -algorithm ed25519)",
		strings.Replace(string(private), "PRIVATE", "ENCRYPTED PRIVATE", 2): "without a passphrase",
		"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n":    "cannot be read",
	} {
		path := write(t, content)
		if _, err := backup.ReadSigner(path); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", content, err)
		}
	}
	for content, want := range map[string]string{
		"": "no PUBLIC KEY", string(public) + string(private): "key 2 is a",
		string(public) + "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n": "key 2 cannot be read",
	} {
		path := write(t, content)
		if got, err := backup.ReadTrusted(path); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%q is read as %v, %v", content, got, err)
		}
	}
	for _, err := range []error{second2(backup.ReadSigner("none")), second2(backup.ReadTrusted("none"))} {
		if !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
}

func second2[T any](_ T, err error) error { return err }
