package auto

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/daemon"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/internal/hostaddr"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// A result is what became of one command line.
type result struct {
	code           int
	stdout, stderr string
	// config is what the daemon was started with, nil if it was not.
	config *daemon.Config
}

func tree(run func(ctx context.Context, c daemon.Config, log *slog.Logger) error) *cobra.Command {
	root := &cobra.Command{Use: "etcdadm", Args: cli.Known}
	root.AddCommand(New(run), NewSeed())
	// As the real one has them.
	root.PersistentFlags().String("cluster-name", "", "")
	root.PersistentFlags().Bool("insecure", false, "")
	cli.AddOutput(root, cli.Table, cli.JSON, cli.YAML)
	cli.AddKlogFlags(root.PersistentFlags())
	return root
}

// run runs a command line with a daemon that ends at once.
func run(t *testing.T, args ...string) result {
	t.Helper()
	var r result
	var stdout, stderr bytes.Buffer
	root := tree(func(_ context.Context, c daemon.Config, _ *slog.Logger) error {
		r.config = &c
		return nil
	})
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	r.code = cli.Run(t.Context(), root, args)
	r.stdout, r.stderr = stdout.String(), stderr.String()
	return r
}

func started(t *testing.T, args ...string) daemon.Config {
	t.Helper()
	r := run(t, args...)
	if r.code != 0 || r.config == nil || r.stdout != "" {
		t.Fatalf("%v: %+v", args, r)
	}
	return *r.config
}

func printed(t *testing.T, args ...string) string {
	t.Helper()
	r := run(t, args...)
	if r.code != 0 || r.config != nil {
		t.Fatalf("%v: %+v", args, r)
	}
	return r.stdout
}

func TestDefaultsOfAuto(t *testing.T) {
	data := t.TempDir() // without the file myid
	c := started(t, "auto", "/store", "--data-dir="+data)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	address, err := hostaddr.Default(false)
	if err != nil {
		t.Skip(err)
	}
	got := fmt.Sprint(c.ClusterName, c.BackupStore, c.NodeName, c.Address, c.PKIDir, c.GRPCPort, c.ClientURLs, c.PeerURLs)
	want := fmt.Sprint("etcd", "/store", host, address, "/etc/etcd-manager/pki", 8000, []string{
		"https://__address__:2379",
	}, []string{"https://__address__:2380"})
	if got != want {
		t.Errorf("the configuration is\n%s, want\n%s", got, want)
	}
	f := newAuto(nil).Flags()
	if d := f.Lookup("data-dir").DefValue; d != "/var/lib/etcd-manager" {
		t.Errorf("the data directory is %s", d)
	}
	for _, name := range slices.Concat(hidden, slices.Collect(maps.Values(other)), slices.Collect(maps.Keys(defaults))) {
		if f.Lookup(name) == nil {
			t.Errorf("the daemon has no flag %s", name)
		}
	}
}

func TestFlagsOfAuto(t *testing.T) {
	base := []string{"auto", "file:///store", "--data-dir=" + t.TempDir(), "--bind-address=10.0.0.1"}
	c := started(t, append(base, "--name=a", "--cluster-name=main", "--client-port=4001", "--peer-port=4002",
		"--grpc-port=7000",
		"--pki-dir=/pki", "--seeds=b=10.0.0.2:7000", "--backup-interval=1h")...)
	got := fmt.Sprint(c.NodeName, c.Address, c.ClusterName, c.ClientURLs, c.PeerURLs, c.GRPCPort, c.PKIDir, c.Seeds,
		c.Policy.BackupInterval)
	if want := "a10.0.0.1main[https://__address__:4001] [https://__address__:4002] 7000/pki[b=10.0.0.2:7000] 1h0m0s"; got != want {
		t.Errorf("the configuration is\n%s, want\n%s", got, want)
	}
	// The daemon's own names do it too.
	c = started(t, "auto", "/store", "--data-dir="+t.TempDir(), "--address=10.0.0.3", "--node-name=c",
		"--client-urls=https://__name__:1")
	if c.Address != "10.0.0.3" || c.NodeName != "c" || c.ClientURLs[0] != "https://__name__:1" {
		t.Errorf("the configuration is %+v", c)
	}
	for args, want := range map[string]string{
		"--bind-address=here": "is not an IP address",
		"--client-port=99999": "--client-port",
		"--nmae=a":            "did you mean --name?",
		"--name=a/b":          "--node-name",
	} {
		if r := run(t, append(base, args)...); r.code != 2 || !strings.Contains(r.stderr, want) || r.config != nil {
			t.Errorf("%s: %+v", args, r)
		}
	}
	for _, args := range [][]string{{"auto"}, {"auto", "a", "b"}, {"auto", "unit"}, {"auto", "manifest"}} {
		if r := run(t, args...); r.code != 2 || !strings.Contains(r.stderr, "needs the URL of the store") ||
			!strings.Contains(r.stderr, "hint: ") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// A machine that has a name in its data directory keeps it.
func TestTheNameOfAMachineThatRanBefore(t *testing.T) {
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "myid"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c := started(t, "auto", "/store", "--bind-address=10.0.0.1", "--data-dir="+data); c.NodeName != "" {
		t.Errorf("it is given the name %s", c.NodeName)
	}
}

func TestTheDaemonsFailureIsTheCommands(t *testing.T) {
	root := tree(func(context.Context, daemon.Config, *slog.Logger) error { return errors.New("the port is taken") })
	var stderr bytes.Buffer
	root.SetErr(&stderr)
	if code := cli.Run(t.Context(), root, []string{"auto", "/store", "--bind-address=10.0.0.1"}); code != 1 ||
		stderr.String() != "error: the port is taken\n" {
		t.Errorf("exit code %d, %s", code, stderr.String())
	}
}

func TestHelpShowsWhatIsMeantToBeUsed(t *testing.T) {
	help := printed(t, "auto", "--help")
	for _, want := range []string{
		"--name", "--bind-address", "--data-dir", "--pki-dir", "--cluster-name", "--client-port", "--seeds",
	} {
		if !strings.Contains(help, want+" ") {
			t.Errorf("%s is not in the help", want)
		}
	}
	for _, no := range append([]string{"node-name", "logtostderr"}, hidden...) {
		if strings.Contains(help, "--"+no+" ") {
			t.Errorf("--%s is in the help", no)
		}
	}
	newAuto(nil).Flags().VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" {
			t.Errorf("--%s has no explanation", f.Name)
		}
	})
}

func TestUnit(t *testing.T) {
	text := printed(t, "auto", "unit", "s3://bucket/etcd?region=eu", "--program=/usr/local/bin/etcdadm",
		"--cluster-name=100% main", "--seeds=b=10.0.0.2:8000,c=10.0.0.3:8000", "--etcd-dir=/a", "--etcd-dir=/b $HOME")
	want := `ExecStart=/usr/local/bin/etcdadm auto s3://bucket/etcd?region=eu "--cluster-name=100%% main" --etcd-dir=/a "--etcd-dir=/b $$HOME" --seeds=b=10.0.0.2:8000 --seeds=c=10.0.0.3:8000`
	if !strings.Contains(oneLine(text), want+"\n") {
		t.Errorf("%s is not in\n%s", want, text)
	}
	for _, line := range []string{
		"Description=etcd cluster 100%% main (etcdadm auto)", "RequiresMountsFor=/etc/etcd-manager/pki /var/lib/etcd-manager",
		"KillMode=mixed", "StateDirectory=etcd-manager", "ReadWritePaths=/etc/etcd-manager/pki",
		"WantedBy=multi-user.target",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%s is not in\n%s", line, text)
		}
	}
	text = printed(t, "auto", "unit", "file:///backups/etcd", "--data-dir=/data")
	if !strings.Contains(text, "RequiresMountsFor=/data /etc/etcd-manager/pki /backups/etcd\n") ||
		!strings.Contains(text, " --data-dir=/data\n") {
		t.Errorf("%s", text)
	}
	if self, err := os.Executable(); err != nil ||
		!strings.Contains(oneLine(text), "ExecStart="+self+" auto file:///backups/etcd ") {
		t.Errorf("%v: %s", err, text)
	}
	for _, form := range [][]string{{"unit"}, {"manifest", "--image=example.com/etcdadm:1"}} {
		if r := run(t, append(append([]string{"auto"}, form...), "/store")...); r.code != 0 || r.stderr != "" {
			t.Errorf("%s, for a daemon that finds its address: %+v", form, r)
		}
	}
	if r := run(t, "auto", "unit", "backups"); r.code != 2 || !strings.Contains(r.stderr, "must be an absolute path") {
		t.Errorf("%+v", r)
	}
	if r := run(t, "auto", "unit", "/backups", "--grpc-port=99999"); r.code != 2 || r.stdout != "" {
		t.Errorf("a unit that does not start is printed: %+v", r)
	}
}

// oneLine joins the lines that a backslash continues.
func oneLine(unit string) string { return strings.ReplaceAll(unit, " \\\n  ", " ") }

// What a unit says is what the daemon gets.
func TestTheWordsOfAUnitAreThoseOfTheCommandLine(t *testing.T) {
	flags := []string{"--data-dir=/data", "--name=a", "--bind-address=10.0.0.1", "--seeds=b=10.0.0.2:8000,10.0.0.3:8000",
		"--etcd-dir=/a,b", "--insecure", "--v=6", "--replace-grace=2m"}
	want := started(t, append([]string{"auto", "/store"}, flags...)...)
	text := printed(t, append([]string{"auto", "unit", "/store", "--program=/bin/etcdadm"}, flags...)...)
	_, line, _ := strings.Cut(oneLine(text), "ExecStart=/bin/etcdadm ")
	line, _, _ = strings.Cut(line, "\n")
	got := started(t, strings.Fields(line)...)
	want.EtcdLog, got.EtcdLog = nil, nil
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("the daemon gets\n%+v, want\n%+v", got, want)
	}
}

func TestManifest(t *testing.T) {
	t.Setenv(etcdbin.DirVariable, "") // of the machine that prints
	text := printed(t, "auto", "manifest", "/backups", "--image=example.com/etcdadm:v1",
		"--etcd-manager-metrics-port=8081", "--etcd-dir=/etcds", "--dns-suffix=internal")
	var p struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
		Spec     struct {
			HostNetwork bool
			Containers  []struct {
				Image         string
				Command, Args []string
				LivenessProbe struct{ HTTPGet struct{ Path, Host string } }
				VolumeMounts  []struct {
					Name, MountPath string
					ReadOnly        bool
				}
			}
			Volumes []struct {
				Name     string
				HostPath *struct{ Path, Type string }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	if p.Kind != "Pod" || p.Metadata.Namespace != "kube-system" || !p.Spec.HostNetwork || len(p.Spec.Containers) != 1 {
		t.Fatalf("%s", text)
	}
	c := p.Spec.Containers[0]
	line := "etcdadm auto /backups --dns-suffix=internal --etcd-dir=/etcds --etcd-manager-metrics-port=8081"
	if strings.Join(append(c.Command, c.Args...), " ") != line || c.Image != "example.com/etcdadm:v1" {
		t.Errorf("it runs %q of %s, want %s", c.Command, c.Image, line)
	}
	if c.LivenessProbe.HTTPGet.Path != "/healthz" || c.LivenessProbe.HTTPGet.Host != "127.0.0.1" {
		t.Errorf("the probe is %+v", c.LivenessProbe)
	}
	var got []string
	for i, m := range c.VolumeMounts {
		v := p.Spec.Volumes[i]
		if v.HostPath == nil {
			got = append(got, m.MountPath)
			continue
		}
		if v.Name != m.Name || v.HostPath.Path != m.MountPath {
			t.Errorf("%+v is mounted as %+v", v, m)
		}
		got = append(got, fmt.Sprint(m.MountPath, " ", v.HostPath.Type, " ", m.ReadOnly))
	}
	want := []string{
		"/tmp", "/var/lib/etcd-manager DirectoryOrCreate false", "/etc/etcd-manager/pki Directory false",
		"/backups Directory false", "/etc/hosts File false", "/etcds Directory true", "/opt Directory true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("mounts are\n%q, want\n%q", got, want)
	}
	text = printed(t, "auto", "manifest", "s3://bucket", "--image=x", "--insecure", "--etcd-insecure", "--pki-dir=")
	if strings.Contains(text, "pki") && !strings.Contains(text, "--pki-dir=") || strings.Contains(text, "name: store") ||
		strings.Contains(text, "livenessProbe") {
		t.Errorf("%s", text)
	}
	if r := run(t, "auto", "manifest", "s3://bucket"); r.code != 2 || !strings.Contains(r.stderr, "--image") {
		t.Errorf("%+v", r)
	}
}

func TestPKI(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	var list authorities
	r := run(t, "auto", "pki", "--pki-dir="+dir, "-o", "json")
	if err := json.Unmarshal([]byte(r.stdout), &list); r.code != 0 || err != nil || len(list.Authorities) != 3 ||
		!strings.Contains(r.stderr, "copy "+dir) {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, a := range list.Authorities {
		if !a.Made {
			t.Errorf("%s was not made", a.Name)
		}
	}
	before, err := os.ReadFile(filepath.Join(dir, "etcd-peers-ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	// A second time only what is missing is made.
	for _, end := range []string{".crt", ".key"} {
		if err := os.Remove(filepath.Join(dir, certs.ManagerCA+end)); err != nil {
			t.Fatal(err)
		}
	}
	if r := run(t, "auto", "pki", "--pki-dir="+dir); r.code != 0 || strings.Count(r.stdout, "true") != 1 ||
		strings.Count(r.stdout, "false") != 2 {
		t.Errorf("%+v", r)
	}
	if after, _ := os.ReadFile(filepath.Join(dir, "etcd-peers-ca.crt")); !bytes.Equal(before, after) {
		t.Error("a CA was replaced")
	}
	if err := os.Remove(filepath.Join(dir, "etcd-peers-ca.key")); err != nil {
		t.Fatal(err)
	}
	if r := run(t, "auto", "pki", "--pki-dir="+dir); r.code != 1 || !strings.Contains(r.stderr, "never replaced") {
		t.Errorf("%+v", r)
	}
	if r := run(t, "auto", "pki", "--pki-dir="+filepath.Join(dir, "etcd-peers-ca.crt")); r.code != 1 {
		t.Errorf("%+v", r)
	}
}

// The whole way: CAs, spec, one command, and an etcd that serves.
func TestAutoRunsACluster(t *testing.T) {
	etcdtest.Finder(t)
	dir := t.TempDir()
	pki, location := filepath.Join(dir, "pki"), filepath.Join(dir, "store")
	printed(t, "auto", "pki", "--pki-dir="+pki)
	printed(t, "seed", location, "nodes=1", "version=3.6.16")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := strconv.Itoa(testport.Free(t))
	var log bytes.Buffer
	root := tree(daemon.Run)
	root.SetOut(&log)
	root.SetErr(io.Discard)
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, root, []string{
			"auto", location, "--name=a", "--bind-address=127.0.0.1", "--data-dir=" + filepath.Join(dir, "data"),
			"--pki-dir=" + pki,
			"--etcd-address=127.0.0.1", "--client-port=" + client, "--peer-port=" + strconv.Itoa(testport.Free(t)),
			"--grpc-port=" + strconv.Itoa(testport.Free(t)),
			"--quarantine-client-urls=https://__address__:" + strconv.Itoa(testport.Free(t)), "--backup-interval=1h",
		})
	}()
	ca, err := certs.LoadCA(pki, certs.ClientsCA, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue(certs.EtcdClient("test"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c, err := etcdclient.Open(etcdclient.Options{Endpoints: []string{"https://127.0.0.1:" + client}, TLS: tlsOf(ca, leaf)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	testwait.For(t, "etcd", c.Healthy)
	cancel()
	select {
	case <-ended:
	case <-time.After(testwait.Limit):
		t.Fatal("the daemon does not end")
	}
	if t.Failed() {
		t.Logf("%s", log.String())
	}
}
