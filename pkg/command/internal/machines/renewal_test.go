package machines

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// Who made a member reads how its certificates are renewed, until something does.
func TestWhoRenewsIsReported(t *testing.T) {
	before := systemdDirs
	defer func() { systemdDirs = before }()
	systemdDirs = []string{t.TempDir()}
	cfg := machine.Defaults()
	cfg.Paths.Units = t.TempDir()
	wants := func(want string) {
		t.Helper()
		if got := renewalWords(cfg); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
	write := func(dir string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, renewTimer), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	wants("end after 365d, and no timer renews them yet. Run each day, by a timer or cron:\n\n\t" +
		"etcdadm certs renew all --within=60d\n")
	cfg.Certificates.Lifetime = machine.Duration(12 * time.Hour)
	wants("end after 12h, and no timer renews them yet. Run each day, by a timer or cron:\n\n\t" +
		"etcdadm certs renew all --within=4h\n")
	cfg.Certificates.Lifetime = machine.Defaults().Certificates.Lifetime
	cfg.Paths.Certificates = "/srv/pki"
	wants("--within=60d --certs-dir=/srv/pki\n")
	write(systemdDirs[0])
	wants("\n\n\tsystemctl enable --now etcdadm-certs-renew.timer\n")
	write(filepath.Join(cfg.Paths.Units, "timers.target.wants"))
	wants("")
	cfg.Paths.Units, cfg.Service.InitSystem = t.TempDir(), machine.Kubelet
	wants("")
}
