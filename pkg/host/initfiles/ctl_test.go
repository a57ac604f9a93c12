package initfiles

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

func control() ControlOptions {
	return ControlOptions{
		Version: etcdversion.Must("3.6.16"), CA: "/etc/etcd/pki/ca.crt",
		Cert: "/etc/etcd/pki/etcdctl-etcd-client.crt", Key: "/etc/etcd/pki/etcdctl-etcd-client.key",
	}
}

func TestControlEnv(t *testing.T) {
	golden(t, "etcdctl.env", must[string](t)(ControlEnv(control())))
	o := control()
	o.Version, o.Endpoints, o.CA = etcdversion.Must("3.5.35"), []string{"https://[::1]:12379", "https://10.0.0.1:12379"},
		"/etc/my etcd/ca.crt"
	golden(t, "etcdctl-3.5.env", must[string](t)(ControlEnv(o)))
}

func TestControlEnvLeavesOutWhatEtcdctlKnows(t *testing.T) {
	o := control()
	for _, endpoints := range [][]string{nil, {"https://127.0.0.1:2379"}} {
		o.Endpoints = endpoints
		if text := must[string](t)(ControlEnv(o)); strings.Contains(text, "ENDPOINTS") {
			t.Errorf("%v: %s", endpoints, text)
		}
	}
	o.Endpoints = []string{"http://127.0.0.1:2379"}
	if text := must[string](t)(ControlEnv(o)); !strings.Contains(text,
		"\nexport ETCDCTL_ENDPOINTS=http://127.0.0.1:2379\n") {
		t.Errorf("no endpoints in %s", text)
	}
}

func TestControlEnvRefuses(t *testing.T) {
	for want, change := range map[string]func(o *ControlOptions){
		"version of etcd is missing": func(o *ControlOptions) { o.Version = etcdversion.Version{} },
		"ETCDCTL_KEY is missing":     func(o *ControlOptions) { o.Key = "" },
		"not an absolute path":       func(o *ControlOptions) { o.CA = "ca.crt" },
		`has the character '\n'`:     func(o *ControlOptions) { o.Endpoints = []string{"https://x\nrm -r /"} },
	} {
		o := control()
		change(&o)
		if _, err := ControlEnv(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want ... %s", err, want)
		}
	}
}

// runScript runs etcdctl.sh from a directory whose name needs quotes, with an
// etcdctl that prints its variables and arguments.
func runScript(t *testing.T, env string, args ...string) (string, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "it's here")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	etcdctl, script, file := filepath.Join(dir, "etcdctl"), filepath.Join(dir, ScriptName),
		filepath.Join(dir, ControlEnvName)
	for path, text := range map[string]string{
		etcdctl: "#!/bin/sh\nenv | grep ^ETCDCTL_ | sort\nfor a; do echo \"<$a>\"; done\nexit 3\n",
		script:  ControlScript(file, etcdctl),
		file:    env,
	} {
		if text == "" {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(script, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	return strings.ReplaceAll(string(out), dir, "DIR"), err
}

func code(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

func TestControlScript(t *testing.T) {
	golden(t, "etcdctl.sh", ControlScript("/etc/etcd/etcdctl.env", "/opt/bin/etcdctl"))
	env := must[string](t)(ControlEnv(control()))
	out, err := runScript(t, env, "put", "a b", "$HOME", "--", "*")
	want := `ETCDCTL_CACERT=/etc/etcd/pki/ca.crt
ETCDCTL_CERT=/etc/etcd/pki/etcdctl-etcd-client.crt
ETCDCTL_DIAL_TIMEOUT=3s
ETCDCTL_KEY=/etc/etcd/pki/etcdctl-etcd-client.key
<put>
<a b>
<$HOME>
<-->
<*>
`
	if out != want || code(err) != 3 {
		t.Errorf("got %s (%v), want %s and etcdctl's own code 3", out, err, want)
	}
}

func TestControlScriptWithoutItsFile(t *testing.T) {
	out, err := runScript(t, "")
	if code(err) != 1 || !strings.Contains(out, "error: cannot read DIR/etcdctl.env\nhint: run this as root") {
		t.Errorf("%v, %s", err, out)
	}
}

func TestFlagGoesBeforeItsVariable(t *testing.T) {
	o := control()
	o.Endpoints = []string{"https://127.0.0.1:12379"}
	env := must[string](t)(ControlEnv(o))
	for _, args := range [][]string{{"--endpoints", "x"}, {"get", "--endpoints=x"}} {
		if out, _ := runScript(t, env, args...); strings.Contains(out, "ENDPOINTS") || !strings.Contains(out, "ETCDCTL_KEY") {
			t.Errorf("%v: %s", args, out)
		}
	}
	for _, args := range [][]string{{"get", "x"}, {"get", "--", "--endpoints"}} {
		if out, _ := runScript(t, env, args...); !strings.Contains(out, "ETCDCTL_ENDPOINTS=https://127.0.0.1:12379\n") {
			t.Errorf("%v: %s", args, out)
		}
	}
}
