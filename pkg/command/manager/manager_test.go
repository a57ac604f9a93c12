package manager

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/daemon"
)

// A result is what became of one command line.
type result struct {
	code           int
	stdout, stderr string
	// config is what the daemon was started with, nil if it was not.
	config *daemon.Config
	log    *slog.Logger
}

// run runs the command line as main does, with a daemon that ends at once.
func run(t *testing.T, args ...string) result {
	t.Helper()
	return runTo(t, nil, args...)
}

func runTo(t *testing.T, end error, args ...string) result {
	t.Helper()
	var r result
	var stdout, stderr bytes.Buffer
	cmd := New(func(_ context.Context, c daemon.Config, log *slog.Logger) error {
		r.config, r.log = &c, log
		return end
	})
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	r.code = cli.Run(t.Context(), cmd, args)
	r.stdout, r.stderr = stdout.String(), stderr.String()
	return r
}

// needed are the flags without which nothing starts.
var needed = []string{"--cluster-name=main", "--backup-store=/store", "--data-dir=/data"}

// with runs the needed flags and more, which must start the daemon.
func with(t *testing.T, args ...string) daemon.Config {
	t.Helper()
	r := run(t, slices.Concat(needed, args)...)
	if r.code != 0 || r.config == nil {
		t.Fatalf("%v: exit code %d, %s", args, r.code, r.stderr)
	}
	return *r.config
}

// usage runs the needed flags and more, which must be a usage error that says
// want.
func usage(t *testing.T, want string, args ...string) {
	t.Helper()
	wrong(t, run(t, slices.Concat(needed, args)...), want)
}

func wrong(t *testing.T, r result, want string) {
	t.Helper()
	if r.code != 2 || !strings.HasPrefix(r.stderr, "error: ") || !strings.Contains(r.stderr, want) {
		t.Errorf("exit code %d, want 2, and %q in\n%s", r.code, want, r.stderr)
	}
	if r.config != nil || r.stdout != "" {
		t.Errorf("the daemon was started, or something printed: %q", r.stdout)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func same[T comparable](t *testing.T, what string, got []T, want ...T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s are %v, want %v", what, got, want)
	}
}

// existing are the flags of the existing etcd-manager, with type and default.
// kops puts them on command lines; one that is missing here stops its pods.
var existing = []struct{ name, kind, value string }{
	{"address", "string", ""},
	{"backup-interval", "string", "15m"},
	{"backup-store", "string", ""},
	{"client-urls", "string", "https://__address__:4001"},
	{"cluster-name", "string", ""},
	{"containerized", "bool", "false"},
	{"data-dir", "string", ""},
	{"discovery-poll-interval", "string", "60s"},
	{"dns-suffix", "string", ""},
	{"env-file", "string", ""},
	{"etcd-address", "string", "0.0.0.0"},
	{"etcd-insecure", "bool", "false"},
	{"etcd-manager-metrics-port", "int", "0"},
	{"grpc-port", "int", "8000"},
	{"insecure", "bool", "false"},
	{"listen-metrics-urls", "string", ""},
	{"network-cidr", "string", ""},
	{"peer-urls", "string", "https://__address__:2380"},
	{"pki-dir", "string", "/etc/kubernetes/pki/etcd-manager"},
	{"quarantine-client-urls", "string", "https://__address__:8001"},
	{"static-config", "string", ""},
	{"volume-name-tag", "string", ""},
	{"volume-provider", "string", ""},
	{"volume-tag", "stringArray", "[]"},
}

func TestFlagsOfTheExistingDaemon(t *testing.T) {
	fs := New(nil).Flags()
	for _, f := range existing {
		got := fs.Lookup(f.name)
		if got == nil {
			t.Errorf("--%s is missing", f.name)
			continue
		}
		if got.Value.Type() != f.kind || got.DefValue != f.value {
			t.Errorf("--%s is a %s, %q by default; want %s, %q", f.name, got.Value.Type(), got.DefValue, f.kind, f.value)
		}
	}
}

func TestEveryFlagIsExplained(t *testing.T) {
	New(nil).Flags().VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" {
			t.Errorf("--%s has no explanation", f.Name)
		}
	})
	r := run(t, "--help")
	if r.code != 0 || !strings.Contains(r.stdout, "--replace-grace") || strings.Contains(r.stdout, "logtostderr") {
		t.Errorf("exit code %d, help:\n%s", r.code, r.stdout)
	}
}

func TestFlagsOfKlogAreTakenAndIgnored(t *testing.T) {
	for _, arg := range []string{
		"--v=6", "-v=6", "-v6", "--logtostderr", "-logtostderr=true", "--alsologtostderr", "--alsologtostderrthreshold=2",
		"--stderrthreshold=2",
		"--vmodule=a=1", "--log_dir=/tmp", "--log_file=/x", "--log_file_max_size=1800", "--add_dir_header", "--skip_headers",
		"--skip_log_headers", "--one_output", "--log_backtrace_at=a:1", "-legacy_stderr_threshold_behavior=true",
	} {
		with(t, arg)
	}
}

func TestTheCommandLineOfKops(t *testing.T) {
	c := with(t, strings.Fields(`--client-urls=https://__name__:4001 --cluster-name=etcd --containerized=true
		--dns-suffix=.internal.example.com --grpc-port=3996 --peer-urls=https://__name__:2380
		--quarantine-client-urls=https://__name__:3994 --v=6 --backup-interval=1h --discovery-poll-interval=2m
		--backup-store=s3://bucket/backups/etcd/main`)...)
	equal(t, "cluster", c.ClusterName, "etcd")
	equal(t, "port", c.GRPCPort, 3996)
	equal(t, "backup interval", c.Policy.BackupInterval.String(), "1h0m0s")
	equal(t, "discovery interval", c.DiscoveryInterval.String(), "2m0s")
	equal(t, "suffix", c.DNSSuffix, "internal.example.com")
	equal(t, "hosts file", c.HostsFile, "/etc/hosts")
	same(t, "peer URLs", c.PeerURLs, "https://__name__:2380")
	same(t, "client URLs", c.ClientURLs, "https://__name__:4001")
	same(t, "quarantine URLs", c.QuarantineURLs, "https://__name__:3994")
}

func TestOneDashIsEnough(t *testing.T) {
	r := run(t, "-cluster-name=main", "-backup-store", "/store", "-data-dir=/data", "-insecure", "-etcd-insecure=true",
		"-volume-tag", "x", "-v", "6")
	if r.code != 0 || r.config == nil {
		t.Fatalf("exit code %d, %s", r.code, r.stderr)
	}
	if c := r.config; c.BackupStore != "/store" || !c.Insecure || !c.EtcdInsecure {
		t.Errorf("the configuration is %+v", c)
	}
}

// All daemons of a machine of kops have metrics of their own, for that machine alone, at
// ports that nobody else has.
func TestMetricsWithKops(t *testing.T) {
	taken := []string{"3988", "3990", "3993", "3994", "3995", "2380", "2381", "2382", "2383", "2384", "4001", "4002",
		"4003", "4004", "4005", "3992", "3989", "3998", "3999", "4000", "3996", "3997", "3991", "4006"}
	for _, grpc := range []string{"3996", "3997", "3991", "4006"} {
		c := with(t, "--grpc-port="+grpc, "--address=10.0.0.1", "--containerized=true")
		at := strings.Join(c.ListenMetrics(), " ")
		host, port, err := net.SplitHostPort(at)
		if err != nil || host != "127.0.0.1" || slices.Contains(taken, port) {
			t.Errorf("the daemon at %s has its metrics at %s, %v", grpc, at, err)
		}
		taken = append(taken, port)
	}
	c := with(t, "--etcd-manager-metrics-port=2391", "--address=10.0.0.1", "--containerized=true")
	equal(t, "metrics that were asked for", strings.Join(c.ListenMetrics(), " "), "10.0.0.1:2391 127.0.0.1:2391")
}

func TestDefaults(t *testing.T) {
	c := with(t)
	equal(t, "address", c.Address, "127.0.0.1")
	equal(t, "where etcd listens", c.EtcdAddress, "0.0.0.0")
	equal(t, "port", c.Listen(), "127.0.0.1:8000")
	equal(t, "hosts file", c.HostsFile, "") // --dns-suffix is not set
	equal(t, "grace", c.Policy.Grace.String(), "1m0s")
	equal(t, "backup interval", c.Policy.BackupInterval.String(), "15m0s")
	equal(t, "hourly retention", c.Policy.HourlyRetention, 0) // the policy's default
	equal(t, "static", c.Static == nil, true)
	equal(t, "metrics", strings.Join(c.ListenMetrics(), " "), "127.0.0.1:8081")
	equal(t, "no metrics", with(t, "--etcd-manager-metrics-port=0").MetricsPort, 0)
	equal(t, "log of etcd", c.EtcdLog != nil, true)
	equal(t, "log of etcd in a file", c.EtcdLogFile, true)
	equal(t, "its log in a container", with(t, "--containerized").EtcdLogFile, false)
	equal(t, "its log in the output", with(t, "--etcd-log=output").EtcdLogFile, false)
	equal(t, "its log in a file in a container", with(t, "--containerized", "--etcd-log=file").EtcdLogFile, true)
	same(t, "metrics URLs", c.MetricsURLs)
	same(t, "peer URLs", c.PeerURLs, "https://__address__:2380")
	same(t, "static nodes", c.Policy.StaticNodes)
}

func TestListsAreSeparatedByCommas(t *testing.T) {
	c := with(t, "--client-urls=https://a:1, https://b:2,", "--listen-metrics-urls=http://0.0.0.0:8081",
		"--seeds=b=10.0.0.2:1,10.0.0.3:1", "--seeds=d=10.0.0.4:1")
	same(t, "client URLs", c.ClientURLs, "https://a:1", "https://b:2")
	same(t, "metrics URLs", c.MetricsURLs, "http://0.0.0.0:8081")
	same(t, "seeds", c.Seeds, "b=10.0.0.2:1", "10.0.0.3:1", "d=10.0.0.4:1")
	same(t, "static nodes", c.Policy.StaticNodes, "b", "d")
}

func TestTheFirstLineIsThatOfTheExistingDaemon(t *testing.T) {
	r := run(t, append(slices.Clone(needed), "--address=10.0.0.1")...)
	equal(t, "stdout", r.stdout, "etcd-manager\n")
	equal(t, "stderr", r.stderr, "")
}

func TestAFailureOfTheDaemonIsNoUsageError(t *testing.T) {
	r := runTo(t, errors.New("open the port: address in use"), append(slices.Clone(needed), "--address=10.0.0.1")...)
	equal(t, "exit code", r.code, 1)
	equal(t, "stderr", r.stderr, "error: open the port: address in use\n")
}

func TestWhatIsLogged(t *testing.T) {
	for arg, debug := range map[string]bool{"--v=0": false, "--v=6": false, "--v=8": true} {
		r := run(t, append(needed, arg)...)
		if got := r.log.Enabled(t.Context(), slog.LevelDebug); got != debug || !r.log.Enabled(t.Context(), slog.LevelInfo) {
			t.Errorf("%s: debug is %t", arg, got)
		}
	}
}

// A daemon that nobody else reaches says so.
func TestAMissingAddressIsReported(t *testing.T) {
	for arg, reported := range map[string]bool{"--v=6": true, "--address=10.0.0.1": false, "--address=127.0.0.1": false} {
		r := run(t, append(slices.Clone(needed), arg)...)
		if got := strings.Contains(r.stderr, "no --address: "); got != reported || r.code != 0 {
			t.Errorf("%s: %d, %s", arg, r.code, r.stderr)
		}
	}
}

func TestUsageErrorsNameTheirFlag(t *testing.T) {
	for i, want := range []string{"--cluster-name is missing", "--backup-store is missing", "--data-dir is missing"} {
		wrong(t, run(t, slices.Delete(slices.Clone(needed), i, i+1)...), want)
	}
	wrong(t, run(t), "hint: as an example: etcd-manager --cluster-name=etcd --backup-store=file:///mnt/etcd-store ")
	wrong(t, run(t, append(slices.Clone(needed), "--grpc-port=-1")...), "hint: etcd-manager --help")
	for _, tc := range []struct{ want, arg string }{
		{"unknown flag --member-count", "--member-count=3"},
		{"did you mean --grpc-port?", "--grpc-prot=1"},
		{"--grpc-port", "--grpc-port=http"},
		{"--grpc-port 65536 is not a port", "--grpc-port=65536"},
		{"--grpc-port -1 is not a port", "--grpc-port=-1"},
		{"--etcd-manager-metrics-port 65536 is not a port", "--etcd-manager-metrics-port=65536"},
		{"--etcd-manager-metrics-port -1 is not a port", "--etcd-manager-metrics-port=-1"},
		{`--address "node1" is not an IP address`, "--address=node1"},
		{"--pki-dir is missing", "--pki-dir="},
		{"--node-name", "--node-name=a b"},
		{"--backup-interval", "--backup-interval=soon"},
		{"--backup-interval: ", "--backup-interval=-1h"},
		{"--discovery-poll-interval: ", "--discovery-poll-interval=-1s"},
		{"--replace-grace", "--replace-grace=soon"},
		{"--replace-grace -1m0s is not a positive duration", "--replace-grace=-1m"},
		{"--bootstrap-grace -1m0s", "--bootstrap-grace=-1m"},
		{"--learner-timeout -1m0s", "--learner-timeout=-1m"},
		{"--backup-fresh -1m0s", "--backup-fresh=-1m"},
		{"--insecure", "--insecure=maybe"},
		{"--backup-trusted-signers: ", "-backup-trusted-signers=/no/way"},
		{"--backup-trusted-signers: ", "-trusted-signers=/no/way"},
		{"--etcd-log=journal is unknown", "--etcd-log=journal"},
		{"unknown command", "now"},
	} {
		t.Run(tc.arg, func(t *testing.T) { usage(t, tc.want, tc.arg) })
	}
}

func TestWithoutTLSNoPKIIsNeeded(t *testing.T) {
	with(t, "--pki-dir=", "--insecure", "--etcd-insecure")
	usage(t, "--pki-dir", "--pki-dir=", "--insecure")
}
