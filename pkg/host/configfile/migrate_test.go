package configfile

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// retiredEnv and retiredUnit have what the retired etcdadm writes.
const retiredEnv = `# [member]
ETCD_NAME=node-1
ETCD_DATA_DIR=/var/lib/etcd

# [clustering]
ETCD_INITIAL_CLUSTER=node-1=https://10.0.0.1:2380,node-2=https://10.0.0.2:2380
ETCD_INITIAL_CLUSTER_TOKEN=5b0c7ba1
ETCD_INITIAL_CLUSTER_STATE=existing
ETCD_INITIAL_ADVERTISE_PEER_URLS=https://10.0.0.1:2380
ETCD_LISTEN_PEER_URLS=https://10.0.0.1:2380
ETCD_ADVERTISE_CLIENT_URLS=https://10.0.0.1:2379
ETCD_LISTEN_CLIENT_URLS=https://10.0.0.1:2379,https://127.0.0.1:2379
ETCD_CIPHER_SUITES=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384

# [security]
ETCD_CLIENT_CERT_AUTH=true
ETCD_PEER_CLIENT_CERT_AUTH=true
ETCD_CERT_FILE=/etc/etcd/pki/server.crt
ETCD_KEY_FILE=/etc/etcd/pki/server.key
ETCD_TRUSTED_CA_FILE=/etc/etcd/pki/ca.crt
ETCD_PEER_CERT_FILE=/etc/etcd/pki/peer.crt
ETCD_PEER_KEY_FILE=/etc/etcd/pki/peer.key
ETCD_PEER_TRUSTED_CA_FILE=/etc/etcd/pki/ca.crt
ETCD_STRICT_RECONFIG_CHECK=true
GOMAXPROCS=4
`

const retiredUnit = `[Unit]
Description=etcd
Conflicts=etcd-member.service
Conflicts=etcd2.service

[Service]
EnvironmentFile=/etc/etcd/etcd.env
ExecStart=/usr/bin/etcd

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

const retiredPod = `apiVersion: v1
kind: Pod
metadata: {name: etcd, namespace: kube-system}
spec:
  hostNetwork: true
  containers:
  - name: etcd
    image: public.ecr.aws/eks-distro/etcd-io/etcd:v3.5.8-eks-1-26-16
    command: [etcd]
    resources: {requests: {cpu: 100m, memory: 100Mi}}
    securityContext: {privileged: true}
    env:
`

func retired() Written {
	return Written{
		Env:  Source{"/etc/etcd/etcd.env", retiredEnv},
		Unit: Source{"/etc/systemd/system/etcd.service", retiredUnit},
	}
}

func TestMigrateFromTheRetired(t *testing.T) {
	c, notes, err := Migrate(retired())
	if err != nil {
		t.Fatal(err)
	}
	want := machine.Config{
		Name:   "node-1",
		Listen: machine.Listen{Address: "10.0.0.1", ClientPort: 2379, PeerPort: 2380},
		Paths: machine.Paths{
			Data: "/var/lib/etcd", Certificates: "/etc/etcd/pki", Install: "/usr/bin",
			Environment: "/etc/etcd", Units: "/etc/systemd/system",
		},
		Service: machine.Service{InitSystem: machine.Systemd},
		Etcd: machine.Etcd{CipherSuites: []string{
			"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
		}},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
	text := strings.Join(notes, "\n")
	for _, part := range []string{"the unit will be sandboxed, which it is not now; service.hardeningOff prevents that", "GOMAXPROCS is left out"} {
		if !strings.Contains(text, part) {
			t.Errorf("the notes lack %q: %s", part, text)
		}
	}
	if len(notes) != 2 {
		t.Errorf("%d notes: %s", len(notes), text)
	}
	b, err := Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse("x", b); err != nil {
		t.Errorf("what was migrated is not valid: %v\n%s", err, b)
	}
}

// podOf writes the retired environment as a static pod has it.
func podOf(env string) string {
	var b strings.Builder
	b.WriteString(retiredPod)
	for line := range strings.Lines(env) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(k, "#") {
			b.WriteString("    - {name: " + k + ", value: \"" + v + "\"}\n")
		}
	}
	return b.String()
}

func TestMigrateFromAStaticPod(t *testing.T) {
	env := strings.ReplaceAll(retiredEnv, "/etc/etcd/pki", "/var/lib/etcd/pki")
	c, notes, err := Migrate(Written{Manifest: Source{"/etc/kubernetes/manifests/etcd.manifest", podOf(env)}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Version != etcdversion.Must("3.5.8-eks-1-26-16") ||
		c.Service.ImageRepository != "public.ecr.aws/eks-distro/etcd-io/etcd" {
		t.Errorf("the image is %s of %s", c.Version, c.Service.ImageRepository)
	}
	if c.Service.InitSystem != machine.Kubelet || c.Service.CPU != "100m" || c.Service.Memory != "100Mi" ||
		c.Paths.Manifests != "/etc/kubernetes/manifests" ||
		c.Paths.Certificates != "/var/lib/etcd/pki" || c.Name != "node-1" || len(notes) != 1 {
		t.Errorf("got %+v, %v", c, notes)
	}
	if _, notes, err = Migrate(Written{Manifest: Source{"/m/etcd.yaml", podOf(env)}}); err != nil ||
		!strings.Contains(strings.Join(notes, "\n"), "remove etcd.yaml") {
		t.Errorf("a manifest with another name: %v, %v", notes, err)
	}
}

func TestImages(t *testing.T) {
	for image, want := range map[string][2]string{
		"registry.k8s.io/etcd:3.6.16-0":       {"registry.k8s.io/etcd", "3.6.16"},
		"registry.k8s.io/etcd:3.5.24-1":       {"registry.k8s.io/etcd", "3.5.24-1"},
		"quay.io/coreos/etcd:v3.5.7":          {"quay.io/coreos/etcd", "3.5.7"},
		"r:5000/etcd:v3.5.8-eks-1-26-16":      {"r:5000/etcd", "3.5.8-eks-1-26-16"},
		"r:5000/etcd":                         {"r:5000/etcd", ""},
		"r/etcd:latest":                       {"r/etcd:latest", ""},
		"r/etcd@sha256:aaaa":                  {"r/etcd@sha256:aaaa", ""},
		"r/etcd:v3.5.7@sha256:" + "aaaa":      {"r/etcd:v3.5.7@sha256:aaaa", ""},
		"gcr.io/etcd-development/etcd:v3.7.3": {"gcr.io/etcd-development/etcd", "3.7.3"},
	} {
		m := &migration{}
		m.image(image)
		if got := [2]string{m.c.Service.ImageRepository, m.c.Version.String()}; got != want {
			t.Errorf("%s: got %v, want %v", image, got, want)
		}
	}
}

// TestMigrateFromOwnFiles migrates what etcdadm itself writes of a member with
// settings of its own.
func TestMigrateFromOwnFiles(t *testing.T) {
	file := func(pair string) etcdconf.Files {
		return etcdconf.Files{CA: "/pki/ca.crt", Cert: "/pki/" + pair + ".crt", Key: "/pki/" + pair + ".key"}
	}
	for _, version := range []string{"3.5.35", "3.6.16"} {
		env, err := etcdconf.Env(etcdconf.Member{
			Name: "a", Version: etcdversion.Must(version), Token: "t", DataDir: "/d/x y", State: etcdconf.StateNew,
			Peers:            []cluster.InitialMember{{Name: "a", PeerURLs: []string{"https://[fd00::1]:7001"}}},
			URLs:             cluster.URLs{Peer: []string{"https://[fd00::1]:7001"}, Client: []string{"https://[fd00::1]:4001"}},
			ListenClientURLs: []string{"https://[fd00::1]:4001", "https://[::1]:4001"},
			ListenPeerURLs:   []string{"https://[::]:7001"},
			MetricsURLs:      []string{"http://127.0.0.1:2381"},
			TLS:              &etcdconf.TLS{Peer: file("peer"), Client: file("server")},
			User:             map[string]string{"ETCD_SNAPSHOT_COUNT": "5000", "ETCD_QUOTA_BACKEND_BYTES": "1073741824"},
		})
		if err != nil {
			t.Fatal(err)
		}
		text, err := initfiles.EnvFile(append(env, "GODEBUG=a b"))
		if err != nil {
			t.Fatal(err)
		}
		unit, err := initfiles.Unit(initfiles.UnitOptions{
			Etcd: "/opt/x y/100%/etcd", EnvFile: "/e/etcd.env", DataDir: "/d/x y", ReadDirs: []string{"/pki"},
			User: "etcd", Group: "1000", Priorities: []string{"CPUWeight=900", "LimitNOFILE=1000000"}, LowPort: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		c, notes, err := Migrate(Written{Env: Source{"/e/etcd.env", text}, Unit: Source{"/u/etcd.service", unit}})
		if err != nil {
			t.Fatal(err)
		}
		want := machine.Config{
			Name: "a",
			Listen: machine.Listen{
				Address: "fd00::1", ClientPort: 4001, PeerPort: 7001, PeerURLs: []string{"https://[::]:7001"},
				MetricsURLs: []string{"http://127.0.0.1:2381"},
			},
			Paths: machine.Paths{Data: "/d/x y", Certificates: "/pki", Install: "/opt/x y/100%", Environment: "/e",
				Units: "/u"},
			Service: machine.Service{
				InitSystem: machine.Systemd, User: "etcd", Group: "1000", Priorities: []string{
					"CPUWeight=900", "LimitNOFILE=1000000",
				},
			},
			Etcd: machine.Etcd{
				QuotaBytes: 1 << 30, Flags: map[string]string{"snapshot-count": "5000"}, Environment: map[string]string{
					"GODEBUG": "a b",
				},
			},
		}
		if !reflect.DeepEqual(c, want) || len(notes) != 0 {
			t.Errorf("%s: got  %+v\nwant %+v\nnotes %v", version, c, want, notes)
		}
	}
}

func TestUnits(t *testing.T) {
	bare, err := initfiles.Unit(initfiles.UnitOptions{
		Etcd: "/opt/bin/etcd", EnvFile: "/e", DataDir: "/d", HardeningOff: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, unit, notes string
		want              machine.Service
		install           string
	}{
		{name: "own without protections", unit: bare, want: machine.Service{HardeningOff: true, Priorities: []string{}},
			install: "/opt/bin"},
		{name: "continued lines", unit: "[Service]\nExecStart=\\\n  /a/etcd\nNice=\\\n 5\n", want: machine.Service{
			Priorities: []string{"Nice=5"},
		}, install: "/a", notes: "sandboxed"},
		{name: "arguments", unit: "[Service]\nExecStart=/a/etcd --snapshot-count=5\n", want: machine.Service{
			Priorities: []string{},
		}, install: "/a", notes: "--snapshot-count=5; they belong to etcd.flags"},
		{name: "another program", unit: "[Service]\nExecStart=/bin/sh -c etcd\n", want: machine.Service{
			Priorities: []string{},
		}, notes: "ExecStart is /bin/sh -c etcd"},
		{name: "a command before", unit: "[Service]\nExecStartPre=/bin/true\n", want: machine.Service{Priorities: []string{}},
			notes: "ExecStartPre=/bin/true is left out"},
		{name: "other sections", unit: "[Unit]\nNice=1\n[Service]\n# Nice=2\n;Nice=3\nNice = 4\n[Install]\nNice=5\n",
			want: machine.Service{Priorities: []string{"Nice=4"}}, notes: "sandboxed"},
	} {
		m := &migration{}
		m.unit(Source{"/etc/systemd/system/etcd.service", tt.unit})
		tt.want.InitSystem = machine.Systemd
		if !reflect.DeepEqual(m.c.Service, tt.want) || m.c.Paths.Install != tt.install {
			t.Errorf("%s: got %+v, %s", tt.name, m.c.Service, m.c.Paths.Install)
		}
		if text := strings.Join(m.notes, "\n"); !strings.Contains(text, tt.notes) || tt.notes == "" && text != "" {
			t.Errorf("%s: notes %s", tt.name, text)
		}
	}
}

func TestEnvironmentsThatAreOdd(t *testing.T) {
	edit := func(old, new string) string { return strings.ReplaceAll(retiredEnv, old, new) }
	for _, tt := range []struct {
		name, env, note string
		check           func(c machine.Config) bool
	}{
		{"another listener", edit("https://127.0.0.1:2379", "https://192.168.0.1:2379"), "", func(c machine.Config) bool {
			return reflect.DeepEqual(c.Listen.ClientURLs, []string{"https://10.0.0.1:2379", "https://192.168.0.1:2379"})
		}},
		{"a name instead of an address", edit("10.0.0.1", "a.example.com"), "listen.address must be its IP address",
			func(c machine.Config) bool { return c.Listen.Address == "" }},
		{"IPv6 without brackets", edit("10.0.0.1", "::1"), "which is not of the form", func(c machine.Config) bool {
			return c.Listen.Address == ""
		}},
		{"plain text", edit("https", "http"), "members of etcdadm use https only", func(c machine.Config) bool {
			return c.Listen.Address == "10.0.0.1"
		}},
		{"two peer URLs", edit("ADVERTISE_PEER_URLS=", "ADVERTISE_PEER_URLS=https://10.0.0.1:2380,"), "has 2 URLs",
			func(c machine.Config) bool { return c.Listen.PeerPort == 2380 }},
		{"no client URL", edit("ETCD_ADVERTISE_CLIENT_URLS", "X"), "ETCD_ADVERTISE_CLIENT_URLS is not set",
			func(c machine.Config) bool { return c.Listen.ClientPort == 0 }},
		{"clients elsewhere", edit("ADVERTISE_CLIENT_URLS=https://10.0.0.1", "ADVERTISE_CLIENT_URLS=https://10.9.9.9"),
			"10.9.9.9 for clients", func(c machine.Config) bool { return c.Listen.ClientPort == 0 }},
		{"certificates elsewhere", edit("pki/server.crt", "pki/tls.crt"), `ETCD_CERT_FILE is "/etc/etcd/pki/tls.crt"`,
			func(c machine.Config) bool { return c.Paths.Certificates == "/etc/etcd/pki" }},
		{"certificates in two places", edit("/etc/etcd/pki/peer", "/x/peer"), "reads all in one directory",
			func(c machine.Config) bool { return c.Paths.Certificates != "" }},
		{"v2", retiredEnv + "ETCD_ENABLE_V2=true\n", "no v2 API from 3.6", func(c machine.Config) bool {
			return len(c.Etcd.Flags) == 0
		}},
		{"v2 off", retiredEnv + "ETCD_ENABLE_V2=false\n", "", func(c machine.Config) bool { return len(c.Etcd.Flags) == 0 }},
		{"usual log", retiredEnv + "ETCD_LOGGER=zap\nETCD_LOG_OUTPUTS=stdout\n", "", func(c machine.Config) bool {
			return c.Etcd.Flags == nil
		}},
		{"unusual log", retiredEnv + "ETCD_LOG_OUTPUTS=stderr\n", "", func(c machine.Config) bool {
			return c.Etcd.Flags["log-outputs"] == "stderr"
		}},
		{"no client certificates", edit("ETCD_CLIENT_CERT_AUTH=true", "ETCD_CLIENT_CERT_AUTH=false"), "",
			func(c machine.Config) bool { return c.Etcd.Flags["client-cert-auth"] == "false" }},
		{"a log of its own", retiredEnv + "ETCD_WAL_DIR=/wal\n", "ETCD_WAL_DIR is left out: it is part of the member's identity",
			func(c machine.Config) bool { return c.Etcd.Flags == nil }},
		{"other variables", retiredEnv + "HTTPS_PROXY=http://p:1\nEMPTY=\n", "", func(c machine.Config) bool {
			return reflect.DeepEqual(c.Etcd.Environment, map[string]string{"HTTPS_PROXY": "http://p:1"})
		}},
		{"a size that is none", retiredEnv + "ETCD_QUOTA_BACKEND_BYTES=x\n", "is not a size", func(c machine.Config) bool {
			return c.Etcd.QuotaBytes == 0
		}},
	} {
		c, notes, err := Migrate(Written{Env: Source{"/etc/etcd/etcd.env", tt.env}})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if text := strings.Join(notes, "\n"); !tt.check(c) || !strings.Contains(text, tt.note) || tt.note == "" &&
			len(notes) != 1 {
			t.Errorf("%s: got %+v, notes %s", tt.name, c, text)
		}
	}
}

func TestNothingToMigrate(t *testing.T) {
	for want, w := range map[string]Written{
		"neither an environment file nor a manifest": {Unit: Source{"/u", retiredUnit}},
		"it does not set ETCD_NAME":                  {Env: Source{"/e", "X=1\n"}},
		"the quote in line 1 is not closed":          {Env: Source{"/e", "X='1\n"}},
		"/m: yaml":                                   {Manifest: Source{"/m", "{"}},
		"is not a pod with a container etcd": {
			Manifest: Source{"/m", "kind: Pod\nspec: {containers: [{name: x}]}\n"},
		},
		"/m: it does not set ETCD_NAME": {Manifest: Source{"/m", "kind: Pod\nspec: {containers: [{name: etcd}]}\n"}},
	} {
		if c, _, err := Migrate(w); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %+v, %v, want %q", c, err, want)
		}
	}
}

// Whatever the files say, what comes of it can be written and read again, or it
// is an error.
func FuzzMigrate(f *testing.F) {
	f.Add(retiredEnv, retiredUnit, "")
	f.Add("", "", podOf(retiredEnv))
	f.Add("ETCD_NAME=a\nETCD_INITIAL_ADVERTISE_PEER_URLS=https://[::1%25x]:99999,x\n",
		"[Service]\nExecStart=\"/a b/etcd\" -x\n=\n", "")
	f.Fuzz(func(t *testing.T, env, unit, manifest string) {
		w := Written{Unit: Source{"/u/etcd.service", unit}}
		if manifest != "" {
			w.Manifest = Source{"/m/etcd.manifest", manifest}
		}
		if env != "" {
			w.Env = Source{"/e/etcd.env", env}
		}
		c, _, err := Migrate(w)
		if err != nil {
			return
		}
		if c.Name == "" {
			t.Error("a member without a name")
		}
		if c.Validate() != nil {
			return // said to the person who migrates
		}
		b, err := Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode("x", b)
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		if !reflect.DeepEqual(again.Config, c) {
			t.Errorf("%+v\nis written as %s\nand read as %+v", c, b, again.Config)
		}
	})
}

// The names in the certificates that follow from nothing else are taken over.
func TestMigrateTakesExtraNamesOver(t *testing.T) {
	env := "ETCD_NAME=Node1\nETCD_DATA_DIR=/var/lib/etcd\n" +
		"ETCD_INITIAL_ADVERTISE_PEER_URLS=https://10.0.0.1:2380\nETCD_ADVERTISE_CLIENT_URLS=https://10.0.0.1:2379\n" +
		"ETCD_CERT_FILE=/pki/server.crt\nETCD_KEY_FILE=/pki/server.key\n"
	c, _, err := Migrate(Written{Env: Source{Path: "/etc/etcd/etcd.env", Text: env},
		SANs: func(dir, pair string) []string {
			if dir != "/pki" {
				t.Errorf("asked for %s in %s", pair, dir)
			}
			return []string{"node1", "localhost", pair + ".example.com", "10.0.0.1", "127.0.0.1", "::1", "10.0.0.9"}
		}})
	if err != nil || !slices.Equal(c.Certificates.ServerSANs, []string{"server.example.com", "10.0.0.9"}) ||
		!slices.Equal(c.Certificates.PeerSANs, []string{"peer.example.com", "10.0.0.9"}) {
		t.Errorf("%+v, %v", c.Certificates, err)
	}
}
