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
	cfg, r := machine.Defaults(), machine.Renewal{}
	cfg.Paths.Units, cfg.Paths.Certificates = t.TempDir(), t.TempDir()
	wants := func(want string) {
		t.Helper()
		want = strings.ReplaceAll(want, "@PKI@", cfg.Paths.Certificates)
		if got := renewalWords(cfg, r); want == "" && got != "" || !strings.Contains(got, want) {
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
	cfg.Certificates.Lifetime = machine.Duration(72 * time.Hour)
	wants("Run each hour, by a timer or cron:\n\n\t" +
		"etcdadm certs renew all --within=24h0m0s --certs-dir=@PKI@ --cert-lifetime=72h0m0s\n")
	cfg.Certificates.Lifetime = machine.Duration(3 * time.Hour)
	wants("Run every ten minutes, by a timer or cron:\n\n\t" +
		"etcdadm certs renew all --within=1h0m0s --certs-dir=@PKI@ --cert-lifetime=3h0m0s\n")
	cfg.Certificates.Lifetime = machine.Duration(12 * time.Hour)

	// A timer that is there and off renews nothing.
	_, timer := cfg.Paths.RenewPaths()
	write(timer)
	wants("Run each hour")
	r.Enabled = true
	wants("")
	cfg.Service.InitSystem = machine.Kubelet
	wants("Run each hour, by a timer or cron")
	cfg.Service.InitSystem, r = machine.Systemd, machine.Renewal{Theirs: []string{timer}, Problem: "it is a person's"}
	wants("")
	r = machine.Renewal{Problem: "others than root can change /tmp"}
	wants("no timer renews them yet. etcdadm has made none: others than root can change /tmp.\nRun each hour")
	write(filepath.Join(cfg.Paths.Units, "timers.target.wants", "etcdadm-certs-renew.timer"))
	wants("")
}

// The line can be pasted.
func TestTheLineThatRenewsIsQuoted(t *testing.T) {
	cfg := machine.Defaults()
	cfg.Service.InitSystem = machine.Kubelet
	cfg.Paths.Certificates = filepath.Join(t.TempDir(), "my $pki")
	if err := os.Mkdir(cfg.Paths.Certificates, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cfg.Paths.Certificate("ca.key"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want := " --within=60d '--certs-dir=" + cfg.Paths.Certificates + "'\n"
	if got := renewalWords(cfg, machine.Renewal{}); !strings.HasSuffix(got, want) {
		t.Errorf("it says %q", got)
	}
}
