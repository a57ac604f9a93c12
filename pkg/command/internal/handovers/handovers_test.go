package handovers

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machineflags"
	"github.com/etcdadm/etcdadm/pkg/host/handover"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// run runs the command on a machine below dir, with nothing of the test's
// environment.
func run(t *testing.T, dir string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	for name, value := range map[string]string{
		"name": "a", "bind-address": "127.0.0.1", "client-port": "1", "peer-port": "2", "init-system": "process",
		"data-dir": "etcd", "certs-dir": "pki", "install-dir": "bin", "cache-dir": "cache", "environment-dir": "etc",
		"unit-dir": "units",
	} {
		if strings.HasSuffix(name, "-dir") {
			value = filepath.Join(dir, value)
		}
		t.Setenv(machineflags.Variable(name), value)
	}
	root := cli.Group("etcdadm", "")
	root.AddCommand(New(func() ([]string, error) { return []string{"/bin/false"}, nil }))
	var out, complaint strings.Builder
	root.SetOut(&out)
	root.SetErr(&complaint)
	code = cli.Run(context.Background(), root, append([]string{"handover"}, args...))
	return out.String(), complaint.String(), code
}

func TestWhatIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no store":           {[]string{"to-manager"}, 2, "--backup-store is missing"},
		"an argument":        {[]string{"from-manager", "now"}, 2, "now"},
		"a store of no kind": {[]string{"to-manager", "--backup-store=ftp://x", "--dry-run"}, 3, "no member in"},
		"no member": {
			[]string{"to-manager", "--backup-store=file:///nowhere"}, 3, "not-running: there is no member in",
		},
		"nothing to be back":  {[]string{"from-manager"}, 3, "has no member to hand back"},
		"not even dry":        {[]string{"from-manager", "--dry-run", "-o", "json"}, 3, "manager-state"},
		"a port that is none": {[]string{"to-manager", "--backup-store=x", "--peer-port=70000"}, 2, "70000"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			out, complaint, code := run(t, dir, append(c.args, "--manager-data-dir="+filepath.Join(dir, "manager"))...)
			if code != c.code || !strings.Contains(complaint, c.says) || out != "" {
				t.Errorf("exit %d: %s%s", code, out, complaint)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("it made %v, %v", left, err)
			}
		})
	}
}

// Where the daemon's data is need not be said twice: the journal knows.
func TestTheJournalNamesTheDirectory(t *testing.T) {
	dir := t.TempDir()
	manager := filepath.Join(dir, "somewhere")
	j, err := json.Marshal(machine.Journal{Direction: machine.ToManager, Done: true, ManagerDir: manager, Token: "c1"})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "etcd.handover.json"), j, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, complaint, _ := run(t, dir, "to-manager", "--backup-store="+filepath.Join(dir, "store")); !strings.Contains(
		complaint, manager) {
		t.Error(complaint)
	}
	if _, complaint, _ := run(t, dir, "to-manager", "--backup-store=x",
		"--manager-data-dir="+manager+"-other"); !strings.Contains(complaint, "--manager-data-dir="+manager+"\n") {
		t.Error(complaint)
	}
}

// The flags that are no machine's come from the environment too.
func TestFlagsFromTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("ETCDADM_BACKUP_STORE", "file://"+dir)
	t.Setenv("ETCDADM_GRPC_PORT", "none")
	if _, complaint, code := run(t, dir, "to-manager"); code != 2 || !strings.Contains(complaint, "ETCDADM_GRPC_PORT") {
		t.Errorf("exit %d: %s", code, complaint)
	}
	t.Setenv("ETCDADM_GRPC_PORT", "8001")
	if _, complaint, code := run(t, dir, "to-manager"); code != 3 || !strings.Contains(complaint, "there is no member") {
		t.Errorf("exit %d: %s", code, complaint)
	}
}

func TestWhatIsSaidAtTheEnd(t *testing.T) {
	var w strings.Builder
	(&task{}).sayDaemon(&w, handover.Result{Daemon: &machine.Daemon{
		Node: "a", Line: "etcd-manager --x", LeaseVotersWhy: "because", Configure: "etcd-manager-ctl y",
	}})
	for _, want := range []string{
		"Member a now belongs to etcd-manager", "\n\tetcd-manager --x\n", "without a record of the lease voters: because.",
		"\n\tetcd-manager-ctl y\n",
	} {
		if !strings.Contains(w.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, &w)
		}
	}
}
