package manager

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// envFile writes a file for --env-file, whose variables are unset when the
// test ends.
func envFile(t *testing.T, content string) string {
	t.Helper()
	for line := range strings.Lines(content) {
		if key, _, ok := strings.Cut(strings.TrimSpace(line), "="); ok && envKey.MatchString(key) {
			t.Setenv(key, "") // restores it at the end
		}
	}
	path := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--env-file=" + path
}

func TestVariablesForEtcdArePassedOn(t *testing.T) {
	t.Setenv("ETCD_QUOTA_BACKEND_BYTES", "8589934592")
	t.Setenv("ETCD_METRICS", "extensive=really")
	t.Setenv("ETCD_MANAGER_CERT_MIN_TIME_LEFT", "20y")
	t.Setenv("NOT_ETCD", "1")
	env := with(t).UserEnv
	equal(t, "quota", env["ETCD_QUOTA_BACKEND_BYTES"], "8589934592")
	equal(t, "metrics", env["ETCD_METRICS"], "extensive=really")
	for key := range env {
		if !strings.HasPrefix(key, "ETCD_") || strings.HasPrefix(key, "ETCD_MANAGER_") {
			t.Errorf("%s is passed on", key)
		}
	}
}

func TestRetentionAndCertificatesByVariable(t *testing.T) {
	t.Setenv("ETCD_MANAGER_HOURLY_BACKUPS_RETENTION", "36h")
	t.Setenv("ETCD_MANAGER_DAILY_BACKUPS_RETENTION", "90d")
	t.Setenv("ETCD_MANAGER_CERT_DURATION", "1y")
	c := with(t)
	equal(t, "hourly", c.Policy.HourlyRetention.Hours(), 36)
	equal(t, "daily", c.Policy.DailyRetention.Hours(), 90*24)
	equal(t, "certificates", c.CertLifetime.Hours(), 365*24)
	for _, name := range []string{
		"ETCD_MANAGER_HOURLY_BACKUPS_RETENTION", "ETCD_MANAGER_DAILY_BACKUPS_RETENTION", "ETCD_MANAGER_CERT_DURATION",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "a while")
			usage(t, name)
			t.Setenv(name, "")
			with(t)
		})
	}
}

// kops checks none of these, and the existing tool takes zero for all but certificates.
func TestZeroDurations(t *testing.T) {
	for _, zero := range []string{"0", "0d", "0s"} {
		t.Setenv("ETCD_MANAGER_HOURLY_BACKUPS_RETENTION", zero)
		t.Setenv("ETCD_MANAGER_DAILY_BACKUPS_RETENTION", zero)
		c := with(t, "--backup-interval=0s", "--discovery-poll-interval=0s")
		p := c.Policy.WithDefaults()
		equal(t, "hourly", p.HourlyRetention, time.Nanosecond)
		equal(t, "daily", p.DailyRetention, time.Nanosecond)
		equal(t, "backups", p.BackupInterval, 10*time.Second)
		equal(t, "looks", c.DiscoveryInterval, time.Second)
	}
	t.Setenv("ETCD_MANAGER_CERT_DURATION", "0h")
	usage(t, "ETCD_MANAGER_CERT_DURATION: 0h is not a positive duration")
}

func TestLookingNearby(t *testing.T) {
	c := with(t)
	equal(t, "without the flags", c.Multicast || c.ScanRange.IsValid(), false)
	c = with(t, "--discovery-scan=10.0.0.0/24", "--discovery-multicast", "--address=10.0.0.1")
	equal(t, "range", c.ScanRange.String(), "10.0.0.0/24")
	equal(t, "multicast", c.Multicast, true)
	usage(t, `--discovery-scan: "10.0.0.0" is not a range of addresses`, "--discovery-scan=10.0.0.0")
	usage(t, "--discovery-scan: 10.0.0.0/8 has more than 1024 addresses", "--discovery-scan=10.0.0.0/8")
	usage(t, "--discovery-multicast needs TLS", "--discovery-multicast", "--insecure")
}

func TestWhereTheStoreMayForgetAClusterIsMadeOnRequest(t *testing.T) {
	equal(t, "without either flag", with(t).Policy.OnRequest, false)
	nodes := `{"etcdVersion":"3.5.21","nodes":[{"id":"a","ip":["10.0.0.1"]}]}`
	equal(t, "with a static configuration", with(t, "--static-config="+nodes).Policy.OnRequest, true)
}

func TestDirectoriesOfBinaries(t *testing.T) {
	t.Setenv("ETCDADM_ETCD_DIR", "/x:/y")
	same(t, "directories", with(t, "--etcd-dir=/a", "--etcd-dir=/b").EtcdDirs, "/a", "/b", "/x", "/y")
}

func TestAnEnvFileSetsVariables(t *testing.T) {
	c := with(t, envFile(t, "# comment\n\n  ETCD_METRICS=extensive \nETCD_LOG_LEVEL=a=b "+
		"c\nETCD_MANAGER_DAILY_BACKUPS_RETENTION=5d\n"))
	equal(t, "metrics", c.UserEnv["ETCD_METRICS"], "extensive")
	equal(t, "everything after the first =", c.UserEnv["ETCD_LOG_LEVEL"], "a=b c")
	equal(t, "daily", c.Policy.DailyRetention.Hours(), 5*24)
}

func TestAnEnvFileThatCannotBeUnderstood(t *testing.T) {
	usage(t, "line 2 is not of the form KEY=VALUE", envFile(t, "A_B=1\nnonsense\n"))
	usage(t, "line 1 is not of the form KEY=VALUE", envFile(t, "1A=1\n"))
	usage(t, "line 1 is not of the form KEY=VALUE", envFile(t, "A B=1\n"))
	usage(t, "--env-file: open /none", "--env-file=/none")
	usage(t, "--env-file", envFile(t, "A_B="+strings.Repeat("x", 1<<20)))
}

func TestAStaticConfigIsSpecAndSeeds(t *testing.T) {
	// What kops writes for metal.
	c := with(t, "--grpc-port=3996",
		`--static-config={"etcdVersion":"3.5.21","nodes":[{"id":"c.example.com--main--0","ip":["node0.main.c.example.com"]},{"id":"b","ip":["fd00::b","10.0.0.2"]},{"id":"a","ip":["10.0.0.1"]}]}`)
	if c.Static == nil || c.Static.MemberCount != 3 || c.Static.EtcdVersion.String() != "3.5.21" {
		t.Fatalf("the spec is %+v", c.Static)
	}
	same(t, "seeds", c.Seeds, "c.example.com--main--0=node0.main.c.example.com:3996", "b=[fd00::b]:3996",
		"a=10.0.0.1:3996")
	same(t, "static nodes", c.Policy.StaticNodes, "c.example.com--main--0", "b", "a")
}

func TestAStaticConfigThatCannotBe(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`{`, "--static-config: unexpected end"},
		{`{"nodes":[{"id":"a","ip":["10.0.0.1"]}]}`, "--static-config: etcd version is missing"},
		{`{"etcdVersion":"3.5.21"}`, "--static-config: member count is 0"},
		{`{"etcdVersion":"new","nodes":[]}`, "--static-config"},
		{`{"etcdVersion":"3.5.21","nodes":[{"ip":["10.0.0.1"]}]}`, "each node needs an id and an ip"},
		{`{"etcdVersion":"3.5.21","nodes":[{"id":"a","ip":[]}]}`, "each node needs an id and an ip"},
	} {
		t.Run(tc.text, func(t *testing.T) { usage(t, tc.want, "--static-config="+tc.text) })
	}
}

func TestVolumeProviders(t *testing.T) {
	for _, p := range []string{"aws", "gce", "openstack", "do", "hetzner", "linode", "azure", "scaleway"} {
		usage(t, "--volume-provider="+p+" is not built into this program", "--volume-provider="+p, "--volume-tag=x")
	}
	usage(t, "--volume-provider=floppy is unknown; it is one of external and aws", "--volume-provider=floppy")
	usage(t, "exactly one --volume-tag, 0 are given", "--volume-provider=external")
	usage(t, "exactly one --volume-tag, 2 are given", "--volume-provider=external", "--volume-tag=a", "--volume-tag=b")
	usage(t, "--static-config", "--volume-provider=external", "--volume-tag=no-such-volume--", "--static-config={")
	usage(t, "--grpc-port", "--volume-provider=external", "--volume-tag=no-such-volume--", "--grpc-port=99999")
}

func TestNetworkCIDRIsForOpenStackOnly(t *testing.T) {
	// The existing daemon's words, which its users look for.
	usage(t, "network-cidr is only supported with provider 'openstack'", "--network-cidr=10.0.0.0/8")
	usage(t, "network-cidr is only supported with provider 'openstack'", "--network-cidr=10.0.0.0/8",
		"--volume-provider=aws")
	usage(t, "--volume-provider=openstack is not built into this program", "--network-cidr=10.0.0.0/8",
		"--volume-provider=openstack")
}

func TestSuffixWithAndWithoutDot(t *testing.T) {
	for _, arg := range []string{"--dns-suffix=internal", "--dns-suffix=.internal"} {
		c := with(t, arg, "--hosts-file=/tmp/hosts")
		equal(t, "suffix", c.DNSSuffix, "internal")
		equal(t, "hosts file", c.HostsFile, "/tmp/hosts")
	}
}
