package operate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

func TestAMachineKeepsItsNameAndAddress(t *testing.T) {
	dir := t.TempDir()
	cfg := machine.Defaults()
	cfg.Paths = machine.Paths{
		Data: dir + "/data", Certificates: dir + "/pki", Install: dir + "/bin", Cache: dir + "/cache",
		Environment: dir, Units: dir + "/units", Manifests: dir + "/manifests",
	}
	env := "ETCD_NAME=node-7\nETCD_INITIAL_ADVERTISE_PEER_URLS=https://[2001:db8::7]:3380\nETCD_ADVERTISE_CLIENT_URLS=https://[2001:db8::7]:3379\n"
	if err := os.WriteFile(filepath.Join(dir, "etcd.env"), []byte(env), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := complete(t.Context(), cfg, false)
	if err != nil || got.Name != "node-7" || got.Listen.Address != "2001:db8::7" || got.Listen.ClientPort != 2379 {
		t.Errorf("building: %+v, %v", got, err)
	}
	if got, err = complete(t.Context(), cfg, true); err != nil || got.Listen.ClientPort != 3379 ||
		got.Listen.PeerPort != 3380 || got.Service.InitSystem != machine.Systemd {
		t.Errorf("as written: %+v, %v", got, err)
	}
	// What is wanted goes first.
	cfg.Name, cfg.Listen.Address = "other", "127.0.0.1"
	if got, err = complete(t.Context(), cfg, false); err != nil || got.Name != "other" ||
		got.Listen.Address != "127.0.0.1" {
		t.Errorf("wanted: %+v, %v", got, err)
	}
	// The retired tool's file, cut off in the middle, decides nothing.
	cfg.Name, cfg.Listen.Address = "b", ""
	if err := os.WriteFile(filepath.Join(dir, "etcd.env"), []byte("ETCD_NAME=\nETCD_INITIAL_ADVERTISE_PEER_URLS=https://"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if got = asWritten(cfg, true); got.Name != "b" || got.Listen.Address != "" || got.Listen.PeerPort != 2380 {
		t.Errorf("from half a file: %+v", got)
	}
}

func TestInitSystemIsTheOneWhoseFilesAreThere(t *testing.T) {
	dir := t.TempDir()
	cfg := machine.Defaults()
	cfg.Paths.Data, cfg.Paths.Units, cfg.Paths.Manifests = dir+"/data", dir+"/units", dir+"/manifests"
	touch := func(path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []struct {
		path string
		want machine.InitSystem
	}{
		{"", machine.Systemd}, {dir + "/data.run/etcd.log", machine.Process},
		{dir + "/manifests/etcd.manifest", machine.Kubelet}, {dir + "/units/etcd.service", machine.Systemd},
	} {
		if s.path != "" {
			touch(s.path)
		}
		if got := written(cfg); got != s.want {
			t.Errorf("with %s it is %s, want %s", s.path, got, s.want)
		}
	}
}

// The binary is where the unit says, whoever wrote that.
func TestInstallWritten(t *testing.T) {
	for unit, want := range map[string]string{
		"[Service]\nExecStart=/usr/bin/etcd\n":                    "/usr/bin",
		"[Service]\nExecStart=\"/opt/x/etcd\" --name a\n":         "/opt/x",
		"[Service]\nExecStart=-/usr/local/bin/etcd --name a\n":    "/usr/local/bin",
		"[Service]\nExecStart=/usr/bin/bash -c '/usr/bin/etcd'\n": "",
		"[Service]\nExecStart=etcd\n":                             "",
		"[Unit]\n":                                                "",
	} {
		cfg := machine.Config{Paths: machine.Paths{Units: t.TempDir()}}
		if err := os.WriteFile(cfg.Paths.Unit(), []byte(unit), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := InstallWritten(cfg); got != want {
			t.Errorf("%q: %q, want %q", unit, got, want)
		}
	}
}

// A machine whose version nobody gives keeps the one that its static pod has: an etcd that
// gets the settings of another one may not start.
func TestTheVersionOfAStaticPod(t *testing.T) {
	cfg := machine.Defaults()
	cfg.Service.InitSystem = machine.Kubelet
	cfg.Paths.Data, cfg.Paths.Manifests = t.TempDir(), t.TempDir()
	for _, c := range []struct{ image, want string }{
		{"image: quay.io/coreos/etcd:v3.6.16", "3.6.16"},
		{"image: registry.k8s.io/etcd:3.5.24-0", "3.5.24-0"},
		{`image: "example.org:5000/etcd:v3.5.7"`, "3.5.7"},
		{"image: example.org/etcd:v3.5.7@sha256:ab12", "3.5.7"},
		{"image: example.org/etcd:v3.5.7@sha256:12ab", "3.5.7"},
		{`image: "example.org:5000/etcd:v3.5.7@sha256:12ab"`, "3.5.7"},
		{"image: example.org/etcd@sha256:12ab", ""},
		{"image: example.org:5000/etcd", ""},
		{"image: example.org/etcd:mine", ""},
		{"name: etcd", ""},
	} {
		if err := os.WriteFile(cfg.Paths.Manifest(), []byte("  - "+c.image+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := running(t.Context(), cfg); !got.IsZero() {
			t.Fatalf("without data it runs %s", got)
		}
		if err := os.Mkdir(cfg.Paths.Member(), 0o700); err != nil {
			t.Fatal(err)
		}
		var want etcdversion.Version
		if c.want != "" {
			want = etcdversion.Must(c.want)
		}
		if got := running(t.Context(), cfg); got != want {
			t.Errorf("%s: %q, want %q", c.image, got, want)
		}
		if err := os.Remove(cfg.Paths.Member()); err != nil {
			t.Fatal(err)
		}
	}
}
