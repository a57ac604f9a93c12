package machine

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/certs"
)

// oldEnv and oldUnit are what the retired etcdadm wrote for the first member.
const (
	oldEnv = `# Initial cluster configuration
ETCD_INITIAL_CLUSTER=a=https://192.0.2.1:2380
ETCD_INITIAL_CLUSTER_TOKEN=0f8d3a51
ETCD_INITIAL_CLUSTER_STATE=new

# Peer configuration
ETCD_INITIAL_ADVERTISE_PEER_URLS=https://192.0.2.1:2380
ETCD_LISTEN_PEER_URLS=https://192.0.2.1:2380
ETCD_CLIENT_CERT_AUTH=true
ETCD_PEER_CERT_FILE=/etc/etcd/pki/peer.crt
ETCD_PEER_KEY_FILE=/etc/etcd/pki/peer.key
ETCD_PEER_TRUSTED_CA_FILE=/etc/etcd/pki/ca.crt

# Client/server configuration
ETCD_ADVERTISE_CLIENT_URLS=https://192.0.2.1:2379
ETCD_LISTEN_CLIENT_URLS=https://192.0.2.1:2379,https://127.0.0.1:2379
ETCD_PEER_CLIENT_CERT_AUTH=true
ETCD_CERT_FILE=/etc/etcd/pki/server.crt
ETCD_KEY_FILE=/etc/etcd/pki/server.key
ETCD_TRUSTED_CA_FILE=/etc/etcd/pki/ca.crt

# Other
ETCD_NAME=a
ETCD_DATA_DIR=/var/lib/etcd
ETCD_STRICT_RECONFIG_CHECK=true
GOMAXPROCS=2
`
	oldUnit = `[Unit]
Description=etcd
Conflicts=etcd-member.service
Conflicts=etcd2.service

[Service]
EnvironmentFile=/etc/etcd/etcd.env
ExecStart=/opt/bin/etcd

Type=notify
TimeoutStartSec=0
Restart=on-failure
RestartSec=5s

LimitNOFILE=65536
Nice=-10
IOSchedulingClass=best-effort
IOSchedulingPriority=2
MemoryLow=200M

[Install]
WantedBy=multi-user.target
`
)

// A machine that the retired etcdadm set up is looked at, backed up and renewed at
// once, and taken over by the steps of the page.
func takenOver(t *testing.T) {
	a, b := newPair(t, v35)
	for _, h := range []*host{a, b} {
		h.fakeSystemd()
		h.seed(v35, archive(t, v35))
	}
	a.seed(v36, archive(t, v36))
	newOldCA(t).install(a)
	a.oldPairs("a")
	for _, name := range []string{"etcd", "etcdctl"} {
		a.write(a.path("bin", name), a.read(filepath.Join(a.binaries, name)), 0o755)
	}
	a.write(a.path("etc", "etcd.env"), oldEnv, 0o600)
	a.write(a.path("units", "etcd.service"), oldUnit, 0o755)
	a.ran("systemctl enable etcd.service; systemctl start etcd.service")
	eventually(t, commandTime/3, "etcd", func() error {
		_, err := a.client(a).Status(t.Context(), a.clientURL())
		return err
	})
	a.put("k", "v")
	id, before := a.id(), a.pki()
	a.ran("etcdadm status; etcdadm info | grep -F '\"name\": \"a\"'; etcdadm certs check-expiration; " +
		"etcdadm snapshot save $HOME/s.db; etcdadm snapshot status $HOME/s.db")

	page := func(i int) string { // the member is alone: the endpoint is its own
		const name, heading = "docs/migrating-from-etcdadm.md", "## Machines that it set up"
		return "cd $HOME\n" + strings.ReplaceAll(harness.Block(t, "../..", name, heading, i, 3), "10.0.0.2", a.address)
	}
	a.ran(page(0) + "etcdadm config validate member.yaml")
	a.ran(page(1))
	if a.id() != id {
		t.Error("it is another member")
	}
	for name, text := range before {
		if a.pki()[name] != text {
			t.Errorf("%s is another file", name)
		}
	}
	wantKeys(map[string]string{"k": "v"}, a)
	if out := a.ran("etcdadm join https://192.0.2.1:2379 --config $HOME/member.yaml"); !strings.Contains(out,
		"Nothing to do") {
		t.Errorf("the second time: %s", out)
	}
	b.copyCA(a)
	b.ran("etcdadm join https://192.0.2.1:2379 --key-algorithm=RSA-2048")
	a.wantVoters("a", "b")
	b.ran("etcdadm reset")
	a.wantVoters("a")

	a.ran(page(2))
	if s, err := a.client(a).Status(t.Context(), a.clientURL()); err != nil || s.Version != v36 || a.id() != id {
		t.Errorf("after the upgrade it is %+v, %v", s, err)
	}
	wantKeys(map[string]string{"k": "v"}, a)
}

// oldPairs makes the certificates of a machine as the retired etcdadm did.
func (h *host) oldPairs(name string) {
	h.t.Helper()
	ca, err := certs.LoadCA(h.path("pki"), "ca", time.Now())
	if err != nil {
		h.t.Fatal(err)
	}
	both := certs.Request{
		CommonName: name, DNSNames: []string{name}, IPs: []net.IP{net.ParseIP(h.address), net.IPv4(127, 0, 0, 1)},
		Server: true, Client: true, RSA: true,
	}
	only := certs.Request{Organization: []string{"system:masters"}, Client: true, RSA: true}
	etcdctl, apiServer := only, only
	etcdctl.CommonName, apiServer.CommonName = name+"-etcdctl", name+"-kube-apiserver-etcd-client"
	for pair, r := range map[string]certs.Request{
		"server": both, "peer": both, "etcdctl-etcd-client": etcdctl, "apiserver-etcd-client": apiServer,
	} {
		leaf, err := ca.Issue(r, time.Now())
		if err != nil {
			h.t.Fatal(err)
		}
		key, err := leaf.KeyPEM()
		if err != nil {
			h.t.Fatal(err)
		}
		h.write(h.path("pki", pair+".key"), string(key), 0o600)
		h.write(h.path("pki", pair+".crt"), string(leaf.CertPEM()), 0o644)
	}
}

// ran runs lines of sh, which must succeed, and returns what they printed.
func (h *host) ran(lines string) string {
	h.t.Helper()
	r := h.shell(lines)
	if r.code != 0 {
		h.t.Fatalf("%s: %s", h.name, r)
	}
	return r.stdout
}

// vik8s makes the certificates first, with names of its own, and calls init with
// other directories. They are used.
func madeBefore(t *testing.T) {
	a, _ := newPair(t, v36)
	a.fakeSystemd()
	a.seed(v36, archive(t, v36))
	newOldCA(t).install(a)
	a.oldPairs("etcd-of-somebody")
	before := a.pki()
	a.ran("etcdadm init --name a --version " + v36 + " --install-dir /opt/local/bin --certs-dir /etc/etcd/pki")
	for name, text := range before {
		if a.pki()[name] != text {
			t.Errorf("%s is another file", name)
		}
	}
	if !exists(filepath.Join(a.root, "opt/local/bin/etcd")) {
		t.Error("etcd is not in /opt/local/bin")
	}
	a.put("k", "v")
}

// What people have in scripts: empty values, flags before the endpoint, a slash
// behind it, all addresses.
func joinOfScripts(t *testing.T) {
	a, b := newPair(t, v36)
	for _, h := range []*host{a, b} {
		h.fakeSystemd()
		h.seed(v36, archive(t, v36))
	}
	a.ran("etcdadm init --bind-address 0.0.0.0")
	b.copyCA(a)
	b.repeated(func() result {
		return b.shell("etcdadm join --name=b2 --server-cert-extra-sans= --disk-priorities=Nice=-5 --retry=false -l debug " +
			"https://192.0.2.1:2379/")
	})
	a.wantVoters("a", "b2")
	if unit := b.read(b.path("units", "etcd.service")); !strings.Contains(unit, "\nNice=-5\n") ||
		strings.Contains(unit, "IOSchedulingClass") {
		t.Errorf("the unit is %s", unit)
	}
	if got := a.variables()["ETCD_INITIAL_ADVERTISE_PEER_URLS"]; got != "https://192.0.2.1:2380" {
		t.Errorf("the peer URL is %s", got)
	}
	// A program that reads both outputs together gets the object alone.
	if r := b.run("info"); r.code != 0 || r.stderr != "" {
		t.Errorf("%s", r)
	}
}

// User data runs before the time daemon has set the clock, and the authority was made
// a moment ago by another machine: it is not valid yet.
func clockIsBehind(t *testing.T) {
	h := newMachine(t, "a", v36)
	h.fakeSystemd()
	h.seed(v36, archive(t, v36))
	newOldCAFrom(t, time.Now().Add(30*time.Second)).install(h)
	if r := h.run("preflight", "--bind-address", "127.0.0.1", "-o", "json"); r.code != 0 ||
		!strings.Contains(r.stdout, `"wait": true`) {
		t.Errorf("%s", r)
	}
	h.ran("etcdadm init --bind-address 127.0.0.1")
	h.put("k", "v")
}

// The page of the restore takes values out of etcd.env and swaps the directory
// member under a stopped service.
func restoreByThePage(t *testing.T) {
	a, _ := newPair(t, v35)
	a.fakeSystemd()
	a.seed(v35, archive(t, v35))
	a.ran("etcdadm init --version " + v35)
	a.put("k", "saved")
	a.ran(". /etc/etcd/etcdctl.env; cd $HOME; /opt/bin/etcdctl snapshot save s.db")
	a.put("k", "too late")
	a.ran(`. /etc/etcd/etcdctl.env; cd $HOME
name=$(grep ^ETCD_NAME= /etc/etcd/etcd.env | cut -d= -f2)
url=$(grep ^ETCD_INITIAL_ADVERTISE_PEER_URLS= /etc/etcd/etcd.env | cut -d= -f2)
systemctl stop etcd.service
/opt/bin/etcdctl snapshot restore s.db --name=$name --initial-cluster=$name=$url \
  --initial-cluster-token=etcd-cluster-1 --initial-advertise-peer-urls=$url
mv /var/lib/etcd/member member.bak
mv $name.etcd/member /var/lib/etcd/
systemctl start etcd.service`)
	eventually(t, commandTime/3, "etcd", func() error {
		_, err := a.client(a).Status(t.Context(), a.clientURL())
		return err
	})
	wantKeys(map[string]string{"k": "saved"}, a)
	a.ran("etcdadm status; etcdadm info; etcdadm init --version " + v35)
	if _, err := os.Stat(a.path("data", "member", "snap", "db")); err != nil {
		t.Error(err)
	}
}
