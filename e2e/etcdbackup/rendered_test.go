//go:build e2e

package etcdbackup

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// render prints what "etcdadm render etcd-backup" prints.
func render(t *testing.T, etcdadm string, args ...string) []byte {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), etcdadm, append([]string{"render", "etcd-backup"}, args...)...).Output()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return text
}

// count is how many backups there are in a store.
func count(t *testing.T, dir string) int {
	t.Helper()
	s, err := store.Open(t.Context(), dir)
	must(t, err)
	list, err := s.Backups(t.Context())
	must(t, err)
	return len(list)
}

// words are those that the kubelet passes on.
func words(args []string) (list []string) {
	for _, a := range args {
		list = append(list, strings.ReplaceAll(a, "$$", "$"))
	}
	return list
}

// What is rendered is run with the real program, beside a real etcd; what cannot
// be run is not rendered.
func TestRenderedCommandLinesBackUp(t *testing.T) {
	etcdadm, agent := program(t, "etcdadm"), program(t, "etcd-backup")
	client := etcdtest.Serve(t, etcdtest.Binaries(t, etcdtest.V36))
	must(t, put(t, client, 1))
	flags := func(store string, more ...string) []string {
		return append([]string{"--", "--cluster-name=main", "--backup-store=" + store,
			"--client-url=" + client.Endpoints()[0], "--verify"}, more...)
	}

	t.Run("wrong flags", func(t *testing.T) { bothRefuse(t, etcdadm, agent) })

	t.Run("CronJob", func(t *testing.T) {
		// The kubelet would replace $(HOME). A path with it cannot be mounted, so the
		// pod has another store, and the program is given this one.
		dir := filepath.Join(t.TempDir(), "100%$(HOME)")
		var job batchv1.CronJob
		must(t, yaml.UnmarshalStrict(render(t, etcdadm, append([]string{"--as=cron-job", "--image=i"},
			flags("s3://bucket/100%$(HOME)", "--once")...)...), &job))
		args := words(job.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args)
		i := slices.Index(args, "--backup-store=s3://bucket/100%$(HOME)")
		if i < 0 {
			t.Fatalf("the words are %q", args)
		}
		args[i] = "--backup-store=" + dir
		if out, err := exec.CommandContext(t.Context(), agent, args...).CombinedOutput(); err != nil || count(t, dir) != 1 {
			t.Errorf("%d backups, %v\n%s", count(t, dir), err, out)
		}
	})

	t.Run("static pod", func(t *testing.T) {
		dir, address := t.TempDir(), testport.Address(t)
		var pod corev1.Pod
		must(t, yaml.UnmarshalStrict(render(t, etcdadm, append([]string{"--image=i"},
			flags(dir, "--listen-metrics="+address)...)...), &pod))
		c := pod.Spec.Containers[0]
		if c.VolumeMounts[0].MountPath != dir {
			t.Errorf("the mounts are %+v", c.VolumeMounts)
		}
		serves(t, run(t, agent, words(c.Args)...), dir, c.ReadinessProbe.HTTPGet)
	})

	t.Run("systemd unit", func(t *testing.T) {
		dir, address := t.TempDir(), testport.Address(t)
		unit := string(render(t, etcdadm, append([]string{"--as=systemd-unit", "--program=" + agent},
			flags(dir, "--listen-metrics="+address)...)...))
		_, start, _ := strings.Cut(unit, "\nExecStart=")
		line, _, _ := strings.Cut(strings.ReplaceAll(start, "\\\n", ""), "\n")
		command := strings.Fields(line)
		if command[0] != agent || !strings.Contains(unit, "\nReadWritePaths="+dir+"\n") {
			t.Fatalf("the unit is\n%s", unit)
		}
		host, port, _ := strings.Cut(address, ":")
		probe := &corev1.HTTPGetAction{Host: host, Path: "/healthz"}
		probe.Port.StrVal, probe.Port.Type = port, 1
		serves(t, run(t, command[0], command[1:]...), dir, probe)
	})
}

// serves waits for a backup and an answer to the probe, and ends the agent.
func serves(t *testing.T, agent *exec.Cmd, dir string, probe *corev1.HTTPGetAction) {
	t.Helper()
	eventually(t, "a backup, and health", func() error {
		url := fmt.Sprintf("http://%s:%s%s", probe.Host, probe.Port.String(), probe.Path)
		r, err := http.Get(url) //nolint:noctx // the test's own process answers
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if text, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s, %w", r.Status, text, err)
		}
		if n := count(t, dir); n != 1 {
			return fmt.Errorf("there are %d backups", n)
		}
		return nil
	})
	must(t, agent.Process.Signal(syscall.SIGTERM))
	must(t, agent.Wait())
}

// bothRefuse tries flags that "render" and the program both refuse, as a mistake of
// who calls them.
func bothRefuse(t *testing.T, etcdadm, agent string) {
	t.Helper()
	const usage = 2
	for _, flags := range []string{
		"--no-such-flag", "--interval=often", "--cron=often", "--prefer=nobody", "--client-url=m:1", "--timeout=0",
		"--daily-retention=x", "--leader-only --prefer=local", "--client-url=https://h:1 --client-ca-file=/c/a",
		"--encrypt-to=age2", "stray",
	} {
		args := append([]string{"--cluster-name=main", "--backup-store=" + t.TempDir(), "--once"}, strings.Fields(flags)...)
		for path, line := range map[string][]string{
			agent:   args,
			etcdadm: append([]string{"render", "etcd-backup", "--as=cron-job", "--image=i", "--"}, args...),
		} {
			cmd := exec.CommandContext(t.Context(), path, line...)
			out, err := cmd.CombinedOutput()
			if err == nil || cmd.ProcessState.ExitCode() != usage {
				t.Errorf("%s with %s: %v, want the exit code %d\n%s", filepath.Base(path), flags, err, usage, out)
			}
		}
	}
}
