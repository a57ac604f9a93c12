package machines

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// Who made a member reads how its certificates are renewed, unless something does.
func TestWhoRenewsIsReported(t *testing.T) {
	cfg := machine.Defaults()
	cfg.Paths.Units, cfg.Paths.Certificates = t.TempDir(), t.TempDir()
	wants := func(want string) {
		t.Helper()
		want = strings.ReplaceAll(want, "@PKI@", cfg.Paths.Certificates)
		if got := renewalWords(cfg); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
	write := func(path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	wants("end after 365d, and no timer renews them yet. Their authority's key is not here")
	write(cfg.Paths.Certificate("ca.key"))
	wants("end after 365d, and no timer renews them yet. Run each day, by a timer or cron:\n\n\t" +
		"etcdadm certs renew all --within=60d --certs-dir=@PKI@\n")
	cfg.Certificates.Lifetime = machine.Duration(12 * time.Hour)
	wants("certs renew all --within=4h0m0s --certs-dir=@PKI@ --cert-lifetime=12h0m0s\n")
	_, timer := cfg.Paths.RenewPaths()
	write(timer)
	wants("")
	cfg.Service.InitSystem = machine.Kubelet
	wants("Run each day, by a timer or cron")
	cfg.Service.InitSystem, cfg.Paths.Units = machine.Systemd, t.TempDir()
	write(filepath.Join(cfg.Paths.Units, "timers.target.wants", "etcdadm-certs-renew.timer"))
	wants("")
}
