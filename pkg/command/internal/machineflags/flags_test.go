package machineflags

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// all are the groups that have every flag between them.
var all = []Group{Member, Certificates, Binaries, Paths, Snapshot, Join}

// parse returns what a command with the groups makes of its arguments.
func parse(t *testing.T, args []string, groups ...Group) (machine.Config, error) {
	t.Helper()
	cmd := &cobra.Command{Use: "x"}
	f := Add(cmd, groups...)
	if err := cmd.ParseFlags(args); err != nil {
		return machine.Config{}, err
	}
	return f.Config()
}

// must is parse for arguments that are right.
func must(t *testing.T, args ...string) machine.Config {
	t.Helper()
	c, err := parse(t, args, all...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return c
}

func TestNoFlagsAreTheDefaults(t *testing.T) {
	if c := must(t); !reflect.DeepEqual(c, machine.Defaults()) {
		t.Errorf("got %+v", c)
	}
}

func TestEachFlagSetsItsField(t *testing.T) {
	ciphers := "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
	sum := strings.Repeat("ab", 32)
	for _, tt := range []struct {
		flag, value string
		get         func(c machine.Config) any
		want        any
	}{
		{"name", "n1", func(c machine.Config) any { return string(c.Name) }, "n1"},
		{"version", "v3.5.8-eks-1-26-16", func(c machine.Config) any { return c.Version.String() }, "3.5.8-eks-1-26-16"},
		{"version", "3.7.3", func(c machine.Config) any { return c.Version.String() }, "3.7.3"},
		{"bind-address", "10.0.0.1", func(c machine.Config) any { return c.Listen.Address }, "10.0.0.1"},
		{"bind-address", "0.0.0.0", func(c machine.Config) any { return c.Listen.Address }, "0.0.0.0"},
		{"bind-address", "", func(c machine.Config) any { return c.Listen.Address }, ""},
		{"client-port", "4001", func(c machine.Config) any { return c.Listen.ClientPort }, 4001},
		{"peer-port", "7001", func(c machine.Config) any { return c.Listen.PeerPort }, 7001},
		{"listen-client-urls", "https://127.0.0.1:1,https://[::1]:1", func(c machine.Config) any {
			return c.Listen.ClientURLs
		}, []string{"https://127.0.0.1:1", "https://[::1]:1"}},
		{"listen-peer-urls", "https://0.0.0.0:2", func(c machine.Config) any { return c.Listen.PeerURLs }, []string{
			"https://0.0.0.0:2",
		}},
		{"listen-metrics-urls", "http://127.0.0.1:3", func(c machine.Config) any { return c.Listen.MetricsURLs }, []string{
			"http://127.0.0.1:3",
		}},
		{"data-dir", "/d/", func(c machine.Config) any { return c.Paths.Data }, "/d"},
		{"certs-dir", "/c", func(c machine.Config) any { return c.Paths.Certificates }, "/c"},
		{"install-dir", "/opt/bin/", func(c machine.Config) any { return c.Paths.Install }, "/opt/bin"},
		{"cache-dir", "/k", func(c machine.Config) any { return c.Paths.Cache }, "/k"},
		{"environment-dir", "/e", func(c machine.Config) any { return c.Paths.Environment }, "/e"},
		{"unit-dir", "/u", func(c machine.Config) any { return c.Paths.Units }, "/u"},
		{"kubelet-pod-manifest-path", "./manifests", func(c machine.Config) any { return c.Paths.Manifests }, "./manifests"},
		{"server-cert-extra-sans", " a, 10.0.0.1,,", func(c machine.Config) any { return c.Certificates.ServerSANs },
			[]string{"a", "10.0.0.1"}},
		{"peer-cert-extra-sans", "b", func(c machine.Config) any { return c.Certificates.PeerSANs }, []string{"b"}},
		{"key-algorithm", "RSA-2048", func(c machine.Config) any { return c.Certificates.KeyAlgorithm }, machine.RSA},
		{"cert-lifetime", "2160h", func(c machine.Config) any { return c.Certificates.Lifetime.String() }, "2160h0m0s"},
		{"ca-lifetime", "9999h", func(c machine.Config) any { return c.Certificates.CALifetime.String() }, "9999h0m0s"},
		{"binaries-dir", "bin", func(c machine.Config) any { return c.Binaries.Dir }, "bin"},
		{"binaries-archive", "x.tar.gz", func(c machine.Config) any { return c.Binaries.Archive }, "x.tar.gz"},
		{"binaries-image", "r/e@sha256:" + sum, func(c machine.Config) any { return c.Binaries.Image }, "r/e@sha256:" + sum},
		{"release-url", "https://x/y.tar.gz", func(c machine.Config) any { return c.Binaries.ReleaseURL },
			"https://x/y.tar.gz"},
		{"binaries-sha256", sum, func(c machine.Config) any { return c.Binaries.SHA256 }, sum},
		{"skip-checksum", "true", func(c machine.Config) any { return c.Binaries.SkipChecksum }, true},
		{"allow-http", "true", func(c machine.Config) any { return c.Binaries.AllowHTTP }, true},
		{"download-connect-timeout", "3s", func(c machine.Config) any { return c.Timeouts.Connect.String() }, "3s"},
		{"init-system", "kubelet", func(c machine.Config) any { return c.Service.InitSystem }, machine.Kubelet},
		{"user", "etcd", func(c machine.Config) any { return c.Service.User }, "etcd"},
		{"group", "etcd", func(c machine.Config) any { return c.Service.Group }, "etcd"},
		{"disk-priorities", `Nice=1,"CPUAffinity=0,1"`, func(c machine.Config) any { return c.Service.Priorities }, []string{
			"Nice=1", "CPUAffinity=0,1",
		}},
		{"disk-priorities", "", func(c machine.Config) any { return c.Service.Priorities }, []string{}},
		{"no-hardening", "true", func(c machine.Config) any { return c.Service.HardeningOff }, true},
		{"image-repository", "r.example.com/etcd", func(c machine.Config) any { return c.Service.ImageRepository },
			"r.example.com/etcd"},
		{"pod-cpu", "1", func(c machine.Config) any { return c.Service.CPU }, "1"},
		{"pod-memory", "1Gi", func(c machine.Config) any { return c.Service.Memory }, "1Gi"},
		{"cipher-suites", ciphers, func(c machine.Config) any { return c.Etcd.CipherSuites }, strings.Split(ciphers, ",")},
		{"quota-backend-bytes", "8Gi", func(c machine.Config) any { return c.Etcd.QuotaBytes }, int64(8 << 30)},
		{"quota-backend-bytes", "8589934592", func(c machine.Config) any { return c.Etcd.QuotaBytes }, int64(8 << 30)},
		{"etcd-flag", "--snapshot-count=5000", func(c machine.Config) any { return c.Etcd.Flags }, map[string]string{
			"snapshot-count": "5000",
		}},
		{"etcd-env", "GODEBUG=a=1,b=2", func(c machine.Config) any { return c.Etcd.Environment }, map[string]string{
			"GODEBUG": "a=1,b=2",
		}},
		{"snapshot", "s.db", func(c machine.Config) any { return c.Snapshot.File }, "s.db"},
		{"skip-hash-check", "true", func(c machine.Config) any { return c.Snapshot.SkipHashCheck }, true},
		{"start-timeout", "1s", func(c machine.Config) any { return c.Timeouts.Start.String() }, "1s"},
		{"membership-timeout", "2s", func(c machine.Config) any { return c.Timeouts.Membership.String() }, "2s"},
		{"promotion-timeout", "3s", func(c machine.Config) any { return c.Timeouts.Promotion.String() }, "3s"},
		{"orphan-timeout", "3s", func(c machine.Config) any { return c.Timeouts.Orphan.String() }, "3s"},
	} {
		t.Run(tt.flag+"="+tt.value, func(t *testing.T) {
			flag := "--" + tt.flag + "=" + tt.value
			if got := tt.get(must(t, flag)); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s: got %#v, want %#v", flag, got, tt.want)
			}
			if tt.value == "" {
				return // an empty variable is none
			}
			t.Setenv(Variable(tt.flag), tt.value)
			if got := tt.get(must(t)); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s=%s: got %#v, want %#v", Variable(tt.flag), tt.value, got, tt.want)
			}
		})
	}
}

// Every field of a configuration has one flag, so that what a file can say
// flags can say too.
func TestEveryFieldHasAFlag(t *testing.T) {
	flags := map[string]string{}
	for i := range table {
		e := &table[i]
		path := e.path()
		if other, twice := flags[path]; twice || path == "" {
			t.Errorf("--%s sets %q, as --%s does", e.name, path, other)
		}
		flags[path] = e.name
	}
	var observe func(v reflect.Value, path string)
	observe = func(v reflect.Value, path string) {
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			at := strings.TrimPrefix(path+"."+name, ".")
			if v.Field(i).Kind() == reflect.Struct && at != "version" {
				observe(v.Field(i), at)
			} else if flags[at] == "" {
				t.Errorf("no flag sets %s", at)
			}
		}
	}
	observe(reflect.ValueOf(machine.Config{}), "")
}

// What help shows as a default can be given, and means the same.
func TestValuesAreReadAsTheyAreShown(t *testing.T) {
	file := written(t, `
name: n
version: 3.5.8-eks-1-26-16
listen: {address: fd00::1, clientPort: 1, peerPort: 2, clientURLs: ["https://[::1]:1", "https://127.0.0.1:1"]}
paths: {data: "/a,b", install: /opt/x y}
certificates: {serverSANs: [a, 10.0.0.1], keyAlgorithm: RSA-2048, lifetime: 36h}
service: {initSystem: process, priorities: ["CPUAffinity=0,1", 'Environment="A=b"']}
etcd: {quotaBytes: 8Gi, flags: {log-level: debug, cors: "a,b"}}
snapshot: {skipHashCheck: true}
`)
	want := must(t, "--config", file)
	for i := range table {
		e := &table[i]
		v := value{entry: e, shown: want}
		if _, pairs := e.field(&want).(*map[string]string); pairs || v.String() == "" {
			continue // pairs are shown together, and given one by one
		}
		got := machine.Defaults()
		if err := e.set(&got, []string{v.String()}); err != nil {
			t.Errorf("--%s %s: %v", e.name, v.String(), err)
		}
		if a, b := e.field(&got), e.field(&want); !reflect.DeepEqual(a, b) {
			t.Errorf("--%s %s is read as %v", e.name, v.String(), reflect.ValueOf(a).Elem())
		}
	}
}

func FuzzFlags(f *testing.F) {
	for i, text := range []string{"a,b", "8Gi", "true", "1m", "3.6.16", "KEY=VALUE", `"a,b",c`, "-1", " x "} {
		f.Add(i, text)
	}
	f.Fuzz(func(t *testing.T, i int, text string) {
		e := &table[(i%len(table)+len(table))%len(table)]
		var c machine.Config
		if err := e.set(&c, []string{text}); err != nil {
			return
		}
		v := value{entry: e, shown: c}
		if _, pairs := e.field(&c).(*map[string]string); pairs {
			return
		}
		var again machine.Config
		if err := e.set(&again, []string{v.String()}); err != nil {
			t.Errorf("--%s=%q is shown as %q: %v", e.name, text, v.String(), err)
		}
		if a, b := e.field(&again), e.field(&c); v.String() != "" && !reflect.DeepEqual(a, b) {
			t.Errorf("--%s=%q is shown as %q, which is %v", e.name, text, v.String(), reflect.ValueOf(a).Elem())
		}
	})
}

func TestSwitchesNeedNoValue(t *testing.T) {
	c := must(t, "--skip-hash-check", "--no-hardening", "--skip-checksum", "--name", "x")
	if !c.Snapshot.SkipHashCheck || !c.Service.HardeningOff || !c.Binaries.SkipChecksum || c.Name != "x" {
		t.Errorf("got %+v", c)
	}
	if c := must(t, "--no-hardening", "--no-hardening=false"); c.Service.HardeningOff {
		t.Error("the last one does not count")
	}
}

func TestFlagsThatAreRepeated(t *testing.T) {
	c := must(t, "--server-cert-extra-sans=a,b", "--server-cert-extra-sans", "c", "--etcd-flag=log-level=debug",
		"--etcd-flag=snapshot-count=5", "--etcd-flag=log-level=warn", "--name=a", "--name=b")
	if got := c.Certificates.ServerSANs; !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("names: %v", got)
	}
	if want := map[string]string{"log-level": "warn", "snapshot-count": "5"}; !reflect.DeepEqual(c.Etcd.Flags, want) {
		t.Errorf("flags: %v", c.Etcd.Flags)
	}
	if c.Name != "b" {
		t.Errorf("the name is %s", c.Name)
	}
}

func TestRetry(t *testing.T) {
	for args, want := range map[string]bool{"": true, "--retry=false": false, "--retry": true} {
		cmd := &cobra.Command{Use: "join"}
		f := Add(cmd, Member, Join)
		if err := cmd.ParseFlags(strings.Fields(args)); err != nil || f.Retry() != want {
			t.Errorf("%q: %t, %v", args, f.Retry(), err)
		}
	}
	for variable, want := range map[string]bool{"": true, "false": false, "1": true} {
		t.Setenv("ETCDADM_RETRY", variable)
		f := Add(&cobra.Command{Use: "join"}, Member, Join)
		if _, err := f.Config(); err != nil || f.Retry() != want {
			t.Errorf("the variable %q: %t, %v", variable, f.Retry(), err)
		}
	}
	t.Setenv("ETCDADM_RETRY", "often")
	if _, err := parse(t, nil, Join); err == nil ||
		!strings.Contains(err.Error(), `ETCDADM_RETRY: "often" is neither true nor false`) {
		t.Errorf("got %v", err)
	}
	f := Add(&cobra.Command{Use: "init"}, Member)
	if !f.Retry() {
		t.Error("a command without the flag does not retry")
	}
	if _, err := parse(t, []string{"--retry=false"}, Member); err == nil {
		t.Error("init has --retry")
	}
}

func TestGroups(t *testing.T) {
	for _, tt := range []struct {
		group      Group
		has, lacks string
	}{
		{Member, "name version certs-dir install-dir data-dir init-system cipher-suites disk-priorities etcd-flag " +
			"start-timeout config kubelet-pod-manifest-path release-url", "snapshot skip-hash-check retry"},
		{Certificates, "name bind-address certs-dir server-cert-extra-sans peer-cert-extra-sans key-algorithm " +
			"cert-lifetime ca-lifetime config", "release-url cipher-suites data-dir"},
		{Binaries, "version release-url download-connect-timeout install-dir cache-dir binaries-sha256 config",
			"name data-dir"},
		{Paths, "data-dir certs-dir install-dir init-system kubelet-pod-manifest-path bind-address unit-dir " +
			"environment-dir config", "version cipher-suites snapshot"},
		{Snapshot, "snapshot skip-hash-check config", "name"},
		{Join, "retry promotion-timeout orphan-timeout config", "name"},
	} {
		cmd := &cobra.Command{Use: "x"}
		Add(cmd, tt.group)
		for name := range strings.FieldsSeq(tt.has) {
			if cmd.Flags().Lookup(name) == nil {
				t.Errorf("group %d lacks --%s", tt.group, name)
			}
		}
		for name := range strings.FieldsSeq(tt.lacks) {
			if cmd.Flags().Lookup(name) != nil {
				t.Errorf("group %d has --%s", tt.group, name)
			}
		}
	}
}

func TestHelpShowsTheDefaults(t *testing.T) {
	cmd := &cobra.Command{Use: "x"}
	Add(cmd, all...)
	usage := cmd.Flags().FlagUsages()
	for _, want := range []string{
		`--certs-dir directory `, `(default "/etc/etcd/pki")`, "--init-system string",
		`systemd|kubelet|process (default "systemd")`,
		"(default Nice=-10,IOSchedulingClass=best-effort,IOSchedulingPriority=2)", "(default 2379)", "(default 2m0s)",
		`(default "` + machine.DefaultVersion.String() + `")`, "--skip-hash-check ", "--etcd-flag KEY=VALUE",
	} {
		if !strings.Contains(usage, want) {
			t.Errorf("help lacks %q", want)
		}
	}
	for _, bad := range []string{"(default )", "(default 0)", "(default false)", "(default [])"} {
		if strings.Contains(usage, bad) {
			t.Errorf("help has %q", bad)
		}
	}
	if t.Failed() {
		t.Log(usage)
	}
}

// A join takes the version of the cluster.
func TestHelpOfJoinShowsNoVersion(t *testing.T) {
	cmd := &cobra.Command{Use: "x"}
	Add(cmd, Member, Join)
	if usage := cmd.Flags().FlagUsages(); !strings.Contains(usage, "with or without a v (default: that of the cluster)\n") {
		t.Error(usage)
	}
}

func TestCompletion(t *testing.T) {
	for flag, want := range map[string][]string{
		"init-system":   {"systemd", "kubelet", "process"},
		"key-algorithm": {"ECDSA-P256", "RSA-2048"},
	} {
		root := &cobra.Command{Use: "x"}
		cmd := &cobra.Command{Use: "init", Run: func(*cobra.Command, []string) {}}
		Add(cmd, Member)
		root.AddCommand(cmd)
		var out strings.Builder
		root.SetOut(&out)
		root.SetArgs([]string{cobra.ShellCompNoDescRequestCmd, "init", "--" + flag, ""})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Fields(out.String()); !slices.Equal(got[:len(got)-1], want) {
			t.Errorf("--%s completes to %v", flag, got)
		}
	}
}

// TestCallsOfOthers has the command lines that Cluster API's providers,
// Bottlerocket and Ansible roles call the retired etcdadm with.
func TestCallsOfOthers(t *testing.T) {
	const ciphers = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
	for _, tt := range []struct {
		line   string
		groups []Group
		check  func(c machine.Config) bool
	}{
		{"--init-system systemd  --version 3.5.8-eks-1-26-16  --release-url https://d/etcd-linux-amd64-v3.5.8.tar.gz " +
			"--install-dir /usr/bin --cipher-suites " + ciphers,
			[]Group{Member, Snapshot}, func(c machine.Config) bool {
				return c.Paths.Install == "/usr/bin" && c.Version.Pre == "eks-1-26-16" && len(c.Etcd.CipherSuites) == 2
			}},
		{"https://10.0.0.1:2379,https://10.0.0.2:2379 --init-system systemd --cipher-suites " + ciphers,
			[]Group{Member, Join}, func(c machine.Config) bool { return len(c.Etcd.CipherSuites) == 2 }},
		{"--version 3.5.8 --init-system kubelet --image-repository r/etcd --certs-dir /var/lib/etcd/pki --data-dir " +
			"/var/lib/etcd/data --kubelet-pod-manifest-path ./manifests --cipher-suites " + ciphers,
			[]Group{Member, Snapshot}, func(c machine.Config) bool {
				return c.Service.InitSystem == machine.Kubelet && c.Paths.Manifests == "./manifests" &&
					c.Paths.Data == "/var/lib/etcd/data"
			}},
		{"http://eks-a-etcd-dumb-url --init-system kubelet", []Group{Certificates, Member, Join},
			func(c machine.Config) bool { return c.Service.InitSystem == machine.Kubelet }},
		{"https://10.0.0.1:2379 --name node-2 --version 3.4.13 --release-url " +
			"https://github.com/coreos/etcd/releases/download", []Group{Member, Join}, func(c machine.Config) bool {
			return c.Name == "node-2"
		}},
		{"--certs-dir /etc/kubernetes/pki/etcd --server-cert-extra-sans etcd,192.168.0.9,10.0.0.1 --bind-address 0.0.0.0",
			[]Group{Member}, func(c machine.Config) bool {
				return len(c.Certificates.ServerSANs) == 3
			}},
		{"--install-dir /opt/bin/ --certs-dir /etc/etcd/pki", []Group{Paths}, func(c machine.Config) bool {
			return c.Paths.Install == "/opt/bin"
		}},
		{"--version 3.5.9 --release-url https://x/y --download-connect-timeout 5s", []Group{Binaries},
			func(c machine.Config) bool { return c.Timeouts.Connect.String() == "5s" }},
	} {
		if c, err := parse(t, strings.Fields(tt.line), tt.groups...); err != nil || !tt.check(c) {
			t.Errorf("%s: %v, %+v", tt.line, err, c)
		}
	}
}
