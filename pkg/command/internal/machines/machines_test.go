package machines

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
)

// call runs the commands with a machine below a temporary directory.
func call(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	root := &cobra.Command{Use: "etcdadm"}
	level := "info"
	root.PersistentFlags().StringVarP(&level, "log-level", "l", "info", "")
	program := func() ([]string, error) { return []string{"/nowhere/etcdadm", "run"}, nil }
	status := &cobra.Command{Use: "status"}
	s := AddStatus(status, cli.AddOutput(status, cli.Table, cli.JSON))
	status.RunE = func(cmd *cobra.Command, _ []string) error { return s.Run(cmd, false) }
	root.AddCommand(NewInit(program), NewJoin(program), NewReset(program), NewRemove(), NewInfo(), NewPreflight(), status)
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	code = cli.Run(t.Context(), root, args)
	return out.String(), errs.String(), code
}

// below sets the paths of the machine.
func below(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, value := range map[string]string{
		"DATA_DIR": dir + "/data", "CERTS_DIR": dir + "/pki", "INSTALL_DIR": dir + "/bin", "CACHE_DIR": dir + "/cache",
		"ENVIRONMENT_DIR": dir + "/etc", "UNIT_DIR": dir + "/units", "KUBELET_POD_MANIFEST_PATH": dir + "/manifests",
		"INIT_SYSTEM": "process", "NAME": "b", "BIND_ADDRESS": "127.0.0.1", "CLIENT_PORT": "1", "PEER_PORT": "2",
	} {
		t.Setenv("ETCDADM_"+name, value)
	}
	return dir
}

func TestDryRunIsAScriptAndChangesNothing(t *testing.T) {
	dir := below(t)
	out, errs, code := call(t, "init", "--dry-run", "--quota-backend-bytes=8Gi", "--etcd-env=A=b c",
		"--ignore-preflight-errors=all")
	if code != 0 {
		t.Fatalf("code %d: %s", code, errs)
	}
	for _, want := range []string{
		"# install: install etcd ", "etcdadm init phase install --etcd-env='A=b c'",
		"# certificates: create a certificate authority in " + dir + "/pki",
		"etcdadm init phase health ", "--quota-backend-bytes=8589934592",
	} {
		if !strings.Contains(out, want) &&
			!strings.Contains(out, strings.ReplaceAll(want, "--etcd-env='A=b c'", "'--etcd-env=A=b c'")) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "dry-run") {
		t.Errorf("the script is about dry runs:\n%s", out)
	}
	if left, _ := filepath.Glob(dir + "/*"); len(left) > 0 {
		t.Errorf("a dry run left %v", left)
	}
	var steps stepsView
	out, _, _ = call(t, "init", "--dry-run", "-o", "json", "--ignore-preflight-errors=all")
	if err := json.Unmarshal([]byte(out), &steps); err != nil || len(steps.Steps) < 6 || steps.Hold != nil {
		t.Errorf("as JSON: %v, %s", err, out)
	}
}

func TestDryRunSaysWhatHolds(t *testing.T) {
	below(t)
	out, errs, code := call(t, "join", "--dry-run", "https://127.0.0.1:3", "--ignore-preflight-errors=all")
	if code != 3 || !strings.Contains(out, "# hold ca-missing: ") ||
		!strings.Contains(errs, "hint: copy ca.crt and ca.key") {
		t.Errorf("code %d, %s, %s", code, out, errs)
	}
}

func TestUsageErrors(t *testing.T) {
	below(t)
	for _, c := range []struct {
		args string
		want string
	}{
		{"join", "the endpoint is missing"},
		{"join phase start", "the endpoint is missing"},
		{"join http://10.0.0.1:2379", "is not https"},
		{"join https://10.0.0.1:2379/v2", "is not an endpoint"},
		{"join https://10.0.0.1:99999", "is not an endpoint"},
		{"join https://10.0.0.1:0", "is not an endpoint"},
		{"join https://root:secret@10.0.0.1:2379", "a user or a password"},
		{"join https://root:se%cret@10.0.0.1:2379", "a user or a password"},
		{"join --retry=maybe https://10.0.0.1:2379", `--retry is "maybe", neither true nor false`},
		{"join https://10.0.0.1:2379?x=y", "is not an endpoint"},
		{"init --client-port=0", "client-port"},
		{"join --membership-timeout=0 https://10.0.0.1:2379", "membership-timeout"},
		{"join ,", "the endpoint is missing"},
		{"init --init-system=openrc", "init-system"},
		{"init --bind-address=host", "bind-address"},
		{"init --etcd-flag=snapshot-cuont=1", "snapshot-count"},
		{"init node1", "--name gives the member another name"},
		{"init phas", "did you mean etcdadm init phase?"},
		{"init --version=9.9.9", "--version is 9.9.9, but etcdadm supports etcd 3, from 3.4 on; choose one such as 3."},
		{"init phase nothing", "unknown command"},
		{"remove", "see the members: etcdadm status"},
		{"remove a b", "one is removed at a time"},
		{"reset --endpoints=http://x", "is not https"},
	} {
		out, errs, code := call(t, strings.Fields(c.args)...)
		if code != 2 || !strings.Contains(errs, c.want) || out != "" || strings.Contains(errs, "cret") {
			t.Errorf("%s: code %d, %q, %q", c.args, code, out, errs)
		}
	}
}

func TestEndpoints(t *testing.T) {
	for text, want := range map[string]string{
		"https://10.0.0.1:2379":   "https://10.0.0.1:2379",
		"10.0.0.1":                "https://10.0.0.1:2379",
		"https://a:1, https://b/": "https://a:1 https://b:2379",
		"https://[2001:db8::1]:2379,[2001:db8::2]:99": "https://[2001:db8::1]:2379 https://[2001:db8::2]:99",
	} {
		got, err := endpoints(text, false)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if got, err := endpoints("http://eks-a-etcd-dumb-url", true); err != nil || got != nil {
		t.Errorf("an endpoint that nobody asks: %v, %v", got, err)
	}
}

func TestPreflightErrorsCanBeIgnoredOneByOne(t *testing.T) {
	found := []machine.Finding{
		{ID: "Port-2379", Fatal: true, Text: "port 2379 is taken", Next: "look"}, {ID: "DiskSync", Text: "slow"}, {
			ID: "OS", Fatal: true, Text: "odd",
		},
	}
	var errs bytes.Buffer
	cmd := &cobra.Command{Use: "x"}
	cmd.SetErr(&errs)
	task := &task{cmd: cmd, ignore: []string{"port-2379"}}
	var bad *preflightError
	if err := task.judge(found); !errors.As(err, &bad) || len(bad.found) != 1 ||
		!strings.Contains(bad.Hint(), "--ignore-preflight-errors=port-2379,OS") || cli.Classify(err).Number != 3 {
		t.Errorf("error is %v", err)
	}
	for _, want := range []string{"[WARNING Port-2379]: port 2379 is taken (look)", "[WARNING DiskSync]: slow"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("no %q in %s", want, errs.String())
		}
	}
	task.ignore = []string{"Port", "os"}
	if err := task.judge(found); err != nil {
		t.Error(err)
	}
	task.ignore = []string{"all"}
	if err := task.judge(found); err != nil {
		t.Error(err)
	}
}

// A word that has no effect is named, with those that have one. What is known is not.
func TestWordsWithoutEffectAreReported(t *testing.T) {
	below(t)
	for _, c := range []struct{ args, want string }{
		{"init --dry-run --ignore-preflight-errors=all --skip-phases=helth", `warning: --skip-phases: init has no phase "helth"`},
		{"init --dry-run --ignore-preflight-errors=all --skip-phases=membership", "its phases are install, certificates, snapshot,"},
		{"init --dry-run --ignore-preflight-errors=NumCPU,all -l error", `there is no check "NumCPU"; name all, or one of IsPriv`},
		{"preflight --ignore-preflight-errors=Port-x", `no check "Port-x"`},
		{"join https://127.0.0.1:3 more --dry-run", "warning: only the first argument is used; ignored: more"},
		{"join phase stop https://127.0.0.1:3 more", "warning: only the first argument is used; ignored: more"},
		{"init --dry-run --ignore-preflight-errors=all,port-2379,Port,isprivilegeduser --skip-phases=health,etcdctl", ""},
		{"join https://127.0.0.1:3 --dry-run --skip-phases=membership,stop", ""},
	} {
		_, errs, _ := call(t, strings.Fields(c.args)...)
		if !strings.Contains(errs, c.want) || c.want == "" && strings.Contains(errs, "warning: ") {
			t.Errorf("%s: %s", c.args, errs)
		}
	}
}

func TestPreflightListsItsChecks(t *testing.T) {
	out, _, code := call(t, "preflight", "--list", "-o", "json")
	var list struct{ Checks []struct{ ID, What string } }
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || len(list.Checks) != len(machine.Checks()) {
		t.Errorf("code %d, %v, %s", code, err, out)
	}
}

func TestObservingAnEmptyMachine(t *testing.T) {
	below(t)
	for command, want := range map[string]string{
		"info":   "error: this machine's etcd does not answer: ",
		"status": "error: there is no member on this machine\nhint: create a cluster with etcdadm init, or join one",
	} {
		out, errs, code := call(t, command)
		if code != 1 || !strings.Contains(errs, want) || !strings.Contains(errs, "hint: ") ||
			strings.Contains(out, "member 0") {
			t.Errorf("%s: code %d, %s, %s", command, code, out, errs)
		}
	}
	out, _, code := call(t, "reset")
	if code != 0 || out != "Nothing to do.\n" {
		t.Errorf("reset: code %d, %q", code, out)
	}
}

// TestAnEtcdThatDoesNotAnswerIsNotWaitedForInSilence: it accepts connections, and says nothing.
func TestAnEtcdThatDoesNotAnswerIsNotWaitedForInSilence(t *testing.T) {
	below(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ETCDADM_CLIENT_PORT", port)
	writePKI(t, os.Getenv("ETCDADM_CERTS_DIR"))
	for command, args := range map[string][]string{
		"info": nil, "status": nil, "preflight": {"--endpoints=https://127.0.0.1:" + port},
	} {
		_, errs, _ := call(t, append([]string{command}, args...)...)
		if want := "note: no answer yet from etcd at https://127.0.0.1:" + port + "\n"; strings.Count(errs, want) != 1 {
			t.Errorf("%s: want once %q in\n%s", command, want, errs)
		}
		_, errs, _ = call(t, append([]string{command, "--log-level=error"}, args...)...)
		if strings.Contains(errs, "note: ") {
			t.Errorf("%s --log-level=error: %s", command, errs)
		}
	}
}

// writePKI writes a CA and its key, by which etcd is asked.
func writePKI(t *testing.T, dir string) {
	t.Helper()
	ca, err := certs.NewCA(certs.CASpec{CommonName: "etcd-ca", Lifetime: time.Hour}, time.Now())
	if err == nil {
		err = ca.Write(dir, "ca")
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestPhasesAreCommands(t *testing.T) {
	init, join := NewInit(nil), NewJoin(nil)
	for _, c := range []struct {
		cmd    *cobra.Command
		action machine.Action
	}{{init, machine.Init}, {join, machine.Join}} {
		phase, _, err := c.cmd.Find([]string{"phase"})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, sub := range phase.Commands() {
			names = append(names, sub.Name())
		}
		for _, p := range machine.Phases(c.action) {
			if !slices.Contains(names, p.Name) || !strings.Contains(c.cmd.Long, p.Short) {
				t.Errorf("%s has no phase %s", c.action, p.Name)
			}
		}
	}
}

// systemd is installed and has not started the machine: nothing is written, whatever is ignored, and the
// flag to use is named. Phases that only write files do.
func TestSystemdThatHasNotStartedTheMachine(t *testing.T) {
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		t.Skip("systemd has started this machine")
	}
	dir := below(t)
	bin := t.TempDir()
	script := "#!/bin/sh\necho 'System has not been booted with systemd as init system (PID 1).' >&2\nexit 1\n"
	if err := os.WriteFile(bin+"/systemctl", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("ETCDADM_INIT_SYSTEM", "systemd")
	for _, args := range [][]string{{"init"}, {"init", "--ignore-preflight-errors=all"}, {"preflight"}} {
		_, errs, code := call(t, args...)
		if code != 3 || !strings.Contains(errs, "has not started this machine") ||
			!strings.Contains(errs, "--init-system=process") {
			t.Errorf("%s: exit code %d: %s", args, code, errs)
		}
	}
	for _, name := range []string{"pki", "etc", "units", "bin", "data"} {
		if _, err := os.Stat(dir + "/" + name); err == nil {
			t.Errorf("%s is written", name)
		}
	}
	if _, errs, code := call(t, "init", "phase", "configure"); code != 0 {
		t.Errorf("the phase configure: exit code %d: %s", code, errs)
	}
	if _, err := os.Stat(dir + "/units/etcd.service"); err != nil {
		t.Error(err)
	}
}

// A join says of an even number of voters what it is worth, and of an odd one nothing.
func TestAJoinSaysWhatAnEvenNumberIsWorth(t *testing.T) {
	for voters, want := range map[int]string{
		2: "2 members tolerate no more failures than 1, and need more votes for each write: join one more.\n",
		3: "",
		4: "4 members tolerate no more failures than 3, and need more votes for each write: join one more.\n",
	} {
		cfg := machine.Defaults()
		cfg.Name, cfg.Listen.Address = "b", "10.0.0.2"
		r := operate.Result{Steps: []machine.Step{{Phase: "start", Do: &machine.StartService{}}}}
		for i := range voters {
			r.Last.Remote.Members = append(r.Last.Remote.Members, cluster.Member{ID: cluster.MemberID(i + 1)})
		}
		var out bytes.Buffer
		(&task{goal: machine.Goal{Action: machine.Join}}).sayBuilt(&out, cfg, r)
		if got := out.String(); got != "Member b is a voter of the cluster, at https://10.0.0.2:2379.\n"+want {
			t.Errorf("%d voters: %s", voters, got)
		}
	}
}
