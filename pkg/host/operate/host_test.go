package operate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

func TestKeysAreOfTheKindThatTheCipherSuitesAllow(t *testing.T) {
	const rsa, ecdsa = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
	for name, c := range map[string]struct {
		suites  []string
		written string
		rsaCA   bool
		given   machine.KeyAlgorithm
		want    machine.KeyAlgorithm
	}{
		"nothing is said":            {want: machine.ECDSA},
		"RSA alone":                  {suites: []string{rsa}, want: machine.RSA},
		"both":                       {suites: []string{rsa, ecdsa}, want: machine.ECDSA},
		"a kind is given":            {suites: []string{rsa}, given: machine.ECDSA, want: machine.ECDSA},
		"RSA alone when it was made": {written: "ETCD_CIPHER_SUITES=" + rsa + "\n", want: machine.RSA},
		"both when it was made":      {written: "ETCD_CIPHER_SUITES=" + rsa + "," + ecdsa + "\n", want: machine.ECDSA},
		"other suites than it was made": {
			suites: []string{ecdsa}, written: "ETCD_CIPHER_SUITES=" + rsa + "\n", want: machine.ECDSA,
		},
		"an RSA authority":                  {rsaCA: true, want: machine.RSA},
		"an RSA authority and both":         {rsaCA: true, suites: []string{rsa, ecdsa}, want: machine.RSA},
		"an RSA authority and ECDSA alone":  {rsaCA: true, suites: []string{ecdsa}, want: machine.ECDSA},
		"an RSA authority and a given kind": {rsaCA: true, given: machine.ECDSA, want: machine.ECDSA},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := machine.Config{Name: "a", Listen: machine.Listen{Address: "127.0.0.1"}}
			cfg.Paths = machine.Paths{
				Data: dir + "/data", Environment: dir, Manifests: dir, Install: dir, Certificates: dir + "/pki",
			}
			cfg.Etcd.CipherSuites, cfg.Certificates.KeyAlgorithm = c.suites, c.given
			if c.written != "" {
				if err := os.WriteFile(filepath.Join(dir, "etcd.env"), []byte(c.written), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.rsaCA {
				spec := certs.MachineSpec{Dir: cfg.Paths.Certificates, Name: "a", Address: "127.0.0.1", RSA: true}
				if err := certs.CreateMachineCA(spec, time.Now()); err != nil {
					t.Fatal(err)
				}
			}
			got, err := complete(t.Context(), cfg, false)
			if err != nil || got.Certificates.KeyAlgorithm != c.want {
				t.Errorf("keys are %s, want %s (%v)", got.Certificates.KeyAlgorithm, c.want, err)
			}
		})
	}
}

// Accounts are looked up by name, as systemd does, and may be numbers that no name is of.
func TestWhoOwnsEtcdsFiles(t *testing.T) {
	const nobody = "etcdadm-no-such-name"
	for _, c := range []struct {
		user, group string
		want        *certs.FileOwner
		hint        string
	}{
		{"", "", nil, ""},
		{"root", "", &certs.FileOwner{}, ""},
		{"4711", "", &certs.FileOwner{UID: 4711, GID: 4711}, ""},
		{"4711", "root", &certs.FileOwner{UID: 4711}, ""},
		{"", "4712", &certs.FileOwner{GID: 4712}, ""},
		{"root", "4712", &certs.FileOwner{GID: 4712}, ""},
		{nobody, "", nil, "useradd --system"},
		{nobody, "4712", nil, "useradd --system"},
		{"root", nobody, nil, "groupadd --system " + nobody},
	} {
		got, err := owner(machine.Service{User: c.user, Group: c.group})
		var unknown *AccountError
		switch {
		case c.hint != "":
			if !errors.As(err, &unknown) || !strings.HasPrefix(unknown.Hint(), c.hint) {
				t.Errorf("%s:%s: %v, want one whose hint is %q", c.user, c.group, err, c.hint)
			}
		case err != nil || (got == nil) != (c.want == nil) || got != nil && *got != *c.want:
			t.Errorf("%s:%s: %+v, %v, want %+v", c.user, c.group, got, err, c.want)
		}
	}
}

// The lock file of a full disk does not name who has the lock.
func TestWhoIsAtWork(t *testing.T) {
	m := &Machine{cfg: onDisk(t)}
	unlock, err := m.Lock(machine.Goal{})
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	for _, want := range []string{fmt.Sprintf("process %d is done", os.Getpid()), "wait until it is done"} {
		var busy *BusyError
		if _, err := m.Lock(machine.Goal{}); !errors.As(err, &busy) || !strings.Contains(busy.Hint(), want) {
			t.Errorf("%v, want the hint %q", err, want)
		}
		if err := os.Truncate(m.cfg.Paths.Lock(), 0); err != nil {
			t.Fatal(err)
		}
	}
}
