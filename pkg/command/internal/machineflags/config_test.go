package machineflags

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
)

const head = "apiVersion: etcdadm.dev/v1\nkind: Member\n"

// written returns the path of a configuration file.
func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "member.yaml")
	if err := os.WriteFile(path, []byte(head+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhoGoesFirst(t *testing.T) {
	file := written(t, "name: file\nlisten: {clientPort: 1001, peerPort: 1002}\npaths: {data: /file, cache: /file/}\n"+
		"certificates: {serverSANs: [file]}\netcd: {flags: {log-level: info, snapshot-count: 1, metrics: "+
		"basic}}\nservice: {hardeningOff: true}\n")
	t.Setenv("ETCDADM_NAME", "variable")
	t.Setenv("ETCDADM_DATA_DIR", "/variable")
	t.Setenv("ETCDADM_CLIENT_PORT", "2001")
	t.Setenv("ETCDADM_CERTS_DIR", "")
	t.Setenv("ETCDADM_ETCD_FLAG", "log-level=warn\nsnapshot-count=2\n")
	c := must(t, "--config", file, "--name=flag", "--etcd-flag", "log-level=debug", "--server-cert-extra-sans=flag",
		"--no-hardening=false")
	got := map[string]any{
		"name": string(c.Name), "data": c.Paths.Data, "client": c.Listen.ClientPort, "peer": c.Listen.PeerPort,
		"cache": c.Paths.Cache,
		"certs": c.Paths.Certificates, "flags": c.Etcd.Flags, "sans": c.Certificates.ServerSANs,
		"open": c.Service.HardeningOff,
	}
	want := map[string]any{
		"name": "flag", "data": "/variable", "client": 2001, "peer": 1002, "cache": "/file", "certs": "/etc/etcd/pki",
		"flags": map[string]string{"log-level": "debug", "snapshot-count": "2", "metrics": "basic"},
		"sans":  []string{"flag"}, "open": false,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestConfigFromTheEnvironment(t *testing.T) {
	t.Setenv("ETCDADM_CONFIG", written(t, "name: a\n"))
	if c := must(t); c.Name != "a" {
		t.Errorf("the name is %q", c.Name)
	}
	if c := must(t, "--config", written(t, "name: b\n")); c.Name != "b" {
		t.Errorf("the variable goes before the flag: %q", c.Name)
	}
	if c := must(t, "--config="); c.Name != "" {
		t.Errorf("an empty flag does not switch it off: %q", c.Name)
	}
}

func TestConfigFromStandardInput(t *testing.T) {
	cmd := &cobra.Command{Use: "x"}
	cmd.SetIn(strings.NewReader(head + "name: a\n"))
	f := Add(cmd, Member)
	if err := cmd.ParseFlags([]string{"--config", "-"}); err != nil {
		t.Fatal(err)
	}
	if c, err := f.Config(); err != nil || c.Name != "a" {
		t.Errorf("got %+v, %v", c, err)
	}
}

// An empty value of a flag is the default, also where the file says something
// else: scripts write --bind-address "$ADDRESS".
func TestEmptyValuesAreTheDefaults(t *testing.T) {
	file := written(t, "listen: {address: 10.0.0.1, clientPort: 1}\npaths: {data: /x}\ntimeouts: {start: 1s}\nversion: "+
		"3.5.35\netcd: {quotaBytes: 1Gi}\n")
	c := must(t, "--config", file, "--bind-address", " ", "--client-port=", "--data-dir=", "--start-timeout=",
		"--version=", "--quota-backend-bytes=", "--etcd-flag=")
	if c.Listen.Address != "" || c.Listen.ClientPort != 2379 || c.Paths.Data != "/var/lib/etcd" ||
		c.Timeouts.Start.String() != "2m0s" || c.Version.String() != "3.6.16" || c.Etcd.QuotaBytes != 0 {
		t.Errorf("got %+v", c)
	}
}

// A source of binaries on the command line goes before every source in the
// file, whatever the order between the fields.
func TestSourceOfBinaries(t *testing.T) {
	sum := strings.Repeat("a", 64)
	file := written(t, "binaries: {dir: /file, sha256: "+sum+"}\n")
	b := must(t, "--config", file, "--binaries-archive=x.tar.gz").Binaries
	if b.Dir != "" || b.Archive != "x.tar.gz" || b.SHA256 != "" {
		t.Errorf("an archive: %+v", b)
	}
	b = must(t, "--config", file, "--release-url=https://x").Binaries
	if b.Dir != "" || b.ReleaseURL != "https://x" {
		t.Errorf("a release: %+v", b)
	}
	b = must(t, "--config", file, "--release-url=https://x", "--binaries-sha256="+sum).Binaries
	if b.SHA256 != sum {
		t.Errorf("with its checksum: %+v", b)
	}
	if b = must(t, "--config", file).Binaries; b.Dir != "/file" || b.SHA256 != sum {
		t.Errorf("the file's: %+v", b)
	}
	t.Setenv("ETCDADM_BINARIES_DIR", "/variable")
	if b = must(t, "--binaries-image=x.tar").Binaries; b.Dir != "" || b.Image != "x.tar" {
		t.Errorf("over the environment: %+v", b)
	}
}

func TestErrorsSayWhoIsWrong(t *testing.T) {
	t.Setenv("ETCDADM_PROMOTION_TIMEOUT", "-1s")
	file := written(t, "listen: {peerPort: 4001}\nversion: 3.7.3\netcd: {flags: {pre-vote: true}}\n")
	unchecked := written(t, "etcd:\n  flags:\n    enable-v2: false\n")
	for _, tt := range []struct {
		args, want string
	}{
		{args: "--bind-address=example.com", want: `--bind-address is "example.com", not an IP address`},
		{args: "--client-port=2380", want: "--peer-port is 2380, the same as the client port"},
		{args: "--server-cert-extra-sans=a,-b",
			want: `--server-cert-extra-sans is "-b", neither a host name nor an IP address`},
		{args: "--data-dir=data", want: `--data-dir is "data", not an absolute path`},
		{args: "--init-system=runit", want: `--init-system is "runit", but must be systemd, kubelet or process`},
		{args: "--etcd-flag=name=x", want: "--etcd-flag name is part of the member's identity"},
		{args: "--etcd-flag=corrupt-check-time=1h --version=3.5.35",
			want: "--etcd-flag corrupt-check-time is not known to etcd 3.5.35 (it came with 3.6), use " +
				"experimental-corrupt-check-time"},
		{args: "--etcd-env=ETCD_NAME=x", want: "--etcd-env ETCD_NAME is part of the member's identity"},
		{args: "--cipher-suites=RC4", want: `--cipher-suites is "RC4", which is not a cipher suite`},
		{args: "--version=3.3.27", want: "--version is 3.3.27, but etcdadm supports etcd 3, from 3.4 on; choose one such as 3."},
		{args: "", want: "ETCDADM_PROMOTION_TIMEOUT is -1s"},
		{args: "--config " + file + " --client-port=4001",
			want: "member.yaml:3:20: listen.peerPort: is 4001, the same as the client port"},
		{args: "--config " + unchecked, want: "member.yaml:5:16: etcd.flags.enable-v2: is gone from etcd 3.6.16"},
	} {
		if tt.args != "" {
			tt.args += " --promotion-timeout=1s"
		}
		_, err := parse(t, strings.Fields(tt.args), all...)
		var usage *cli.UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s\ngot  %v\nwant %s", tt.args, err, tt.want)
		}
	}
}

func TestValuesThatCannotBeRead(t *testing.T) {
	for _, tt := range []struct{ arg, want string }{
		{"--client-port=x", `"x" is not a whole number`},
		{"--start-timeout=10", `"10" is not a duration such as 1m30s`},
		{"--no-hardening=maybe", `"maybe" is neither true nor false`},
		{"--quota-backend-bytes=8Gig", `"8Gig" is not a size`},
		{"--version=3.6", "is not of the form 3.6.16"},
		{"--etcd-flag=snapshot-count", `"snapshot-count" is not of the form KEY=VALUE`},
		{"--etcd-flag==5", "is not of the form KEY=VALUE"},
		{`--disk-priorities="Nice`, "is not a comma-separated list"},
	} {
		if _, err := parse(t, []string{tt.arg}, all...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.arg, err)
		}
		name, value, _ := strings.Cut(strings.TrimPrefix(tt.arg, "--"), "=")
		t.Run(name, func(t *testing.T) {
			t.Setenv(Variable(name), value)
			_, err := parse(t, nil, all...)
			if err == nil || !strings.Contains(err.Error(), Variable(name)+": ") || cli.Classify(err).Kind != cli.KindUsage {
				t.Errorf("%s=%s: %v", Variable(name), value, err)
			}
		})
	}
}

func TestFileThatIsWrong(t *testing.T) {
	file := written(t, "nmae: a\n")
	_, err := parse(t, []string{"--config", file}, Member)
	if err == nil || !strings.Contains(err.Error(), file+":3:1: nmae: unknown field, did you mean name?") ||
		cli.Classify(err).Kind != cli.KindUsage {
		t.Errorf("got %v", err)
	}
	if _, err = parse(t, []string{"--config", file + "x"}, Member); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
}

// reset and status work on what is there: the flags in the file are for the
// version that init was given, which they are not.
func TestCommandsWithoutAVersionDoNotJudgeFlags(t *testing.T) {
	file := written(t, "etcd: {flags: {experimental-corrupt-check-time: 1h, enable-v2: true}}\n")
	if _, err := parse(t, []string{"--config", file}, Paths); err != nil {
		t.Errorf("a reset: %v", err)
	}
	if _, err := parse(t, []string{"--config", file}, Member); err == nil {
		t.Error("an init takes a flag that etcd 3.6 does not have")
	}
	if _, err := parse(t, []string{"--config", file, "--version=3.5.35"}, Member); err != nil {
		t.Errorf("an init of etcd 3.5: %v", err)
	}
	bad := written(t, "paths: {data: x}\n")
	if _, err := parse(t, []string{"--config", bad}, Paths); err == nil {
		t.Error("a reset takes a path that is none")
	}
}
