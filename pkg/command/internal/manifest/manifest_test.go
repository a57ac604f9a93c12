package manifest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the manifests of the source tree")

// examples are the files of manifests, each with the command line that makes it.
var examples = map[string][]string{
	"etcd-manager/static-pod.yaml": {
		"etcd-manager", "--image=registry.example.com/etcdadm/etcd-manager:v1", "--", "--cluster-name=etcd",
		"--backup-store=s3://my-bucket/etcd/main", "--data-dir=/var/lib/etcd-manager", "--node-name=node1",
		"--address=10.0.0.1", "--etcd-manager-metrics-port=8080",
	},
	"etcd-manager/etcd-manager.service": {
		"etcd-manager", "--as=systemd-unit", "--", "--cluster-name=etcd", "--backup-store=file:///mnt/etcd-store",
		"--data-dir=/var/lib/etcd-manager", "--address=10.0.0.1", "--etcd-manager-metrics-port=8080",
	},
	"etcd-manager/kops-main.yaml":   kops("main", "etcd", "2380", "4001", "3996", "3994"),
	"etcd-manager/kops-events.yaml": kops("events", "etcd-events", "2381", "4002", "3997", "3995"),

	"etcd-backup/static-pod.yaml": backups([]string{"--image=registry.example.com/etcdadm/etcd-backup:v1"},
		"/etc/kubernetes/pki/etcd/healthcheck-client", "--backup-store=/var/backups/etcd", "--prefer=local", "--interval=15m",
		"--daily-retention=90d", "--max-size=20GiB", "--listen-metrics=127.0.0.1:2391"),
	"etcd-backup/cronjob.yaml": backups([]string{
		"--as=cron-job", "--image=registry.example.com/etcdadm/etcd-backup:v1", "--env=AWS_REGION=eu-central-1",
		"--secret=etcd-backup-store",
	}, "/etc/kubernetes/pki/etcd/healthcheck-client", "--once", "--backup-store=s3://my-bucket/etcd/main",
		"--compression=zstd", "--daily-retention=90d"),
	"etcd-backup/etcd-backup.service": backups([]string{"--as=systemd-unit"}, "/etc/etcd/pki/etcdctl-etcd-client",
		"--backup-store=/var/lib/etcd-backup", "--prefer=local", "--interval=15m", "--hourly-retention=168h",
		"--daily-retention=90d", "--max-size=20GiB", "--listen-metrics=127.0.0.1:2391"),
}

// kops returns a command line with flags as kops writes them.
func kops(key, cluster, peer, client, grpc, quarantine string) []string {
	return []string{
		"etcd-manager", "--as=kops-pod", "--image=registry.example.com/etcdadm/etcd-manager:v1",
		"--etcd-image=3.5.35=registry.example.com/etcdadm/etcd:v3.5.35",
		"--etcd-image=3.6.16=registry.example.com/etcdadm/etcd:v3.6.16",
		"--env=ETCD_MANAGER_DAILY_BACKUPS_RETENTION=90d", "--",
		"--backup-store=s3://kops-state/prod.example.com/backups/etcd/" + key, "--client-urls=https://__name__:" + client,
		"--cluster-name=" + cluster, "--containerized=true", "--dns-suffix=.internal.prod.example.com",
		"--grpc-port=" + grpc, "--peer-urls=https://__name__:" + peer,
		"--quarantine-client-urls=https://__name__:" + quarantine, "--v=6", "--volume-name-tag=k8s.io/etcd/" + key,
		"--volume-provider=aws", "--volume-tag=k8s.io/etcd/" + key, "--volume-tag=k8s.io/role/control-plane=1",
		"--volume-tag=kubernetes.io/cluster/prod.example.com=owned",
	}
}

// backups returns a command line for an etcd with TLS, whose certificates are
// beside a CA's.
func backups(own []string, pair string, flags ...string) []string {
	return slices.Concat([]string{"etcd-backup"}, own, []string{"--", "--cluster-name=main"}, flags, []string{
		"--verify", "--client-url=https://127.0.0.1:2379", "--client-ca-file=" + filepath.Dir(pair) + "/ca.crt",
		"--client-cert-file=" + pair + ".crt", "--client-key-file=" + pair + ".key",
	})
}

func render(args ...string) (string, error) {
	cmd := New()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}

// TestExamples holds the files of the source tree to what the command prints.
func TestExamples(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "..", "manifests")
	for name, args := range examples {
		got, err := render(args...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		file := filepath.Join(dir, name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs from what the command prints (go test ./pkg/command/internal/manifest -update):\n%s", file, got)
		}
	}
}

// Each file of these folders is in the examples.
func TestAllFilesAreMadeByTheCommand(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "..", "manifests")
	files, err := filepath.Glob(filepath.Join(dir, "etcd-*", "*"))
	if err != nil || len(files) != len(examples) {
		t.Errorf("%d files for %d examples, %v", len(files), len(examples), err)
	}
	for _, file := range files {
		if name, err := filepath.Rel(dir, file); err != nil || examples[name] == nil {
			t.Errorf("no command makes %s: %v", file, err)
		}
	}
}

// A Prometheus is given metrics that it reaches, and no others.
func TestWhereAPrometheusFindsMetrics(t *testing.T) {
	const (
		daemon = "etcd-manager --image=i -- --cluster-name=main --backup-store=s3://b/p"
		kops   = "etcd-manager --image=i --as=kops-pod -- --cluster-name=main --backup-store=s3://b/p " +
			"--volume-provider=aws --containerized"
		agent = "etcd-backup --image=i -- --cluster-name=main --backup-store=s3://b/p"
	)
	for _, tt := range []struct{ command, flags, want string }{
		{daemon, "--address=10.0.0.1", ""},
		{daemon, "--address=10.0.0.1 --etcd-manager-metrics-port=8080", "8080"},
		{daemon, "--etcd-manager-metrics-port=8080", ""},
		{daemon, "--etcd-manager-metrics-port=8080 --etcd-manager-metrics-address=0.0.0.0", "8080"},
		{daemon, "--address=10.0.0.1 --etcd-manager-metrics-port=8080 --etcd-manager-metrics-address=127.0.0.1", ""},
		{kops, "", ""},
		{kops, "--etcd-manager-metrics-port=4077", "4077"},
		{kops, "--etcd-manager-metrics-port=4077 --etcd-manager-metrics-address=127.0.0.1", ""},
		{agent, "", ""},
		{agent, "--listen-metrics=127.0.0.1:2391", ""},
		{agent, "--listen-metrics=[::1]:2391", ""},
		{agent, "--listen-metrics=localhost:2391", ""},
		{agent, "--listen-metrics=10.0.0.1:0", ""},
		{agent, "--listen-metrics=10.0.0.1:2391", "2391"},
		{agent, "--listen-metrics=:2391", "2391"},
	} {
		text, err := render(strings.Fields(tt.command + " " + tt.flags)...)
		if err != nil {
			t.Errorf("%q: %v", tt.flags, err)
		}
		want := ""
		if tt.want != "" {
			want = "  annotations:\n    prometheus.io/scrape: \"true\"\n    prometheus.io/port: \"" + tt.want + "\"\n"
		}
		if !strings.Contains(text, want+"spec:\n  hostNetwork: true\n") ||
			strings.Contains(text, "prometheus") != (want != "") {
			t.Errorf("%q: the port is not %q:\n%s", tt.flags, tt.want, text)
		}
	}
}

// The kubelet refuses a pod with two mounts at one path.
func TestDirectoriesAreMountedOnce(t *testing.T) {
	text, err := render("etcd-manager", "--image=i", "--", "--cluster-name=etcd", "--backup-store=s3://b/p",
		"--data-dir=/var/lib/etcd-manager", "--etcd-dir=/opt", "--etcd-dir=/srv/etcd/", "--etcd-dir=/srv/etcd")
	for _, dir := range []string{"/opt", "/srv/etcd"} {
		if n := strings.Count(text, "mountPath: "+dir+"\n"); err != nil || n != 1 {
			t.Errorf("%s is mounted %d times, %v\n%s", dir, n, err, text)
		}
	}
}

func TestWrongInput(t *testing.T) {
	daemon := []string{"--", "--cluster-name=etcd", "--backup-store=s3://b/p"}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{daemon, "--image is missing"},
		{[]string{"--image=i", "--", "--cluster-name=etcd"}, "--backup-store of etcd-manager is missing"},
		{[]string{"--image=i"}, "--cluster-name of etcd-manager is missing"},
		{append(daemon[:3:3], "--no-such-flag"), "no-such-flag"},
		{append([]string{"--image=i"}, append(daemon[:3:3], "stray")...), `not "stray"`},
		{append([]string{"--image=i", "--etcd-image=3.6.16"}, daemon...), "not of the form VERSION=IMAGE"},
		{append([]string{"--image=i", "--env=X"}, daemon...), "KEY=VALUE"},
		{append([]string{"--image=two words"}, daemon...), "is not one"},
		{append([]string{"--as=deployment", "--image=i"}, daemon...), "is not one of static-pod, kops-pod, systemd-unit"},
		{append([]string{"--as=systemd-unit"}, append(daemon[:3:3], "--data-dir=relative")...), "not an absolute path"},
		{append([]string{"--image=i"}, append(daemon[:3:3], "--data-dir=relative")...), "not an absolute path"},
	} {
		text, err := render(append([]string{"etcd-manager"}, tt.args...)...)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q\n%s", tt.args, err, tt.want, text)
		}
	}
}

// What the kubelet and systemd would replace reaches the daemon as it was given.
func TestWhatIsReplacedIsEscaped(t *testing.T) {
	args := []string{"--", "--cluster-name=etcd", "--backup-store=s3://b/$(HOME)/100%", "--node-name=a b"}
	pod, err := render(append([]string{"etcd-manager", "--image=i"}, args...)...)
	if err != nil || !strings.Contains(pod, `--backup-store=s3://b/$$(HOME)/100%`) {
		t.Errorf("%v\n%s", err, pod)
	}
	unit, err := render(append([]string{"etcd-manager", "--as=systemd-unit"}, args...)...)
	if err != nil || !strings.Contains(unit, `--backup-store=s3://b/$$(HOME)/100%%`) ||
		!strings.Contains(unit, `"--node-name=a b"`) {
		t.Errorf("%v\n%s", err, unit)
	}
}
