package config

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/host/configfile"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

const head = "apiVersion: etcdadm.dev/v1\nkind: Member\n"

// run executes "etcdadm config" and returns its exit code and outputs.
func run(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	root := &cobra.Command{Use: "etcdadm"}
	cli.AddOutput(root, cli.Table, cli.JSON, cli.YAML)
	root.PersistentFlags().String("cluster-name", "", "a flag of the whole program")
	root.AddCommand(New())
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errs)
	code = cli.Run(context.Background(), root, append([]string{"config"}, args...))
	return code, out.String(), errs.String()
}

// file returns the path of a file with a text.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrintDefaults(t *testing.T) {
	t.Setenv("ETCDADM_NAME", "somebody")
	code, out, errs := run(t, "", "print", "--defaults")
	want, err := configfile.Marshal(machine.Defaults())
	if err != nil || code != 0 || out != string(want) || errs != "" {
		t.Errorf("code %d, %v\n%s%s", code, err, out, errs)
	}
	code, out, _ = run(t, "", "print", "--defaults", "-o", "json", "--cluster-name=x")
	f, err := configfile.Parse("x.json", []byte(out))
	if err != nil || code != 0 || f.Config.Paths != machine.Defaults().Paths || !json.Valid([]byte(out)) {
		t.Errorf("as JSON: code %d, %v\n%s", code, err, out)
	}
	if code, _, errs = run(t, "", "print", "--defaults", "--name=x"); code != 2 ||
		!strings.Contains(errs, "--defaults and --name do not go together") {
		t.Errorf("with a flag: code %d, %s", code, errs)
	}
}

func TestPrintWhatIsInEffect(t *testing.T) {
	t.Setenv("ETCDADM_PEER_PORT", "7001")
	path := file(t, "member.yaml", head+"name: a\nlisten: {clientPort: 4001}\n")
	code, out, errs := run(t, "", "print", "--config", path, "--name=b", "--snapshot=s.db")
	if code != 0 {
		t.Fatal(errs)
	}
	f, err := configfile.Parse("x", []byte(out))
	if err != nil {
		t.Fatalf("it is not a configuration: %v\n%s", err, out)
	}
	if c := f.Config; c.Name != "b" || c.Listen.ClientPort != 4001 || c.Listen.PeerPort != 7001 ||
		c.Snapshot.File != "s.db" || c.Paths.Data != "/var/lib/etcd" {
		t.Errorf("got %s", out)
	}
	// Printed and read, it is the same.
	if _, again, _ := run(t, out, "print", "--config=-"); again != out {
		t.Errorf("got %s\nof %s", again, out)
	}
	if code, _, errs = run(t, "", "print", "--bind-address=x"); code != 2 || !strings.Contains(errs, "--bind-address is") {
		t.Errorf("a wrong flag: code %d, %s", code, errs)
	}
}

func TestValidateFiles(t *testing.T) {
	good := file(t, "good.yaml", head+"name: a\n")
	typo := file(t, "typo.yaml", head+"nmae: a\npaths: {data: x}\n")
	old := file(t, "old.yaml", head+"etcd: {flags: {enable-v2: true}}\n")
	next := file(t, "next.yaml", head+"version: 3.9.0\netcd: {flags: {snapshot-count: 5}}\n")
	ports := file(t, "ports.yaml", head+"listen: {clientPort: 2380}\n")

	if code, out, errs := run(t, "", "validate", good); code != 0 || out != good+": valid\n" || errs != "" {
		t.Errorf("good: code %d, %s%s", code, out, errs)
	}
	if code, out, errs := run(t, head+"name: a\n", "validate", "-"); code != 0 || out != "-: valid\n" {
		t.Errorf("standard input: code %d, %s%s", code, out, errs)
	}
	code, out, errs := run(t, "", "validate", good, typo, old, next, ports, good+"x")
	if code != 2 || !strings.Contains(errs, "4 of 6 configurations are not valid") {
		t.Errorf("all: code %d, %s", code, errs)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, want := range []string{
		good + ": valid",
		typo + ":3:1: nmae: unknown field, did you mean name?",
		old + ":3:27: etcd.flags.enable-v2: is gone from etcd 3.6.16",
		next + ": valid",
		"the flags of etcd 3.9.0 are not known",
		ports + ":1: listen.peerPort: is 2380, the same as the client port",
		"no such file",
	} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("line %d lacks %q:\n%s", i+1, want, out)
		}
	}
	if code, _, errs = run(t, "", "validate", typo); code != 2 ||
		!strings.Contains(errs, "the configuration is not valid") {
		t.Errorf("one: code %d, %s", code, errs)
	}
}

func TestValidateAsJSON(t *testing.T) {
	bad := file(t, "bad.yaml", head+"name: [a]\nx: 1\n")
	code, out, errs := run(t, "", "validate", "-o", "json", bad)
	var all validation
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 2 || all.Valid {
		t.Fatalf("code %d, %v: %s", code, err, out)
	}
	got := all.Results
	if len(got) != 1 || got[0].Valid || got[0].File != bad || len(got[0].Errors) != 2 || !json.Valid([]byte(errs)) {
		t.Errorf("got %+v, %s", got, errs)
	}
}

func TestValidateTheFlags(t *testing.T) {
	if code, out, _ := run(t, "", "validate", "--etcd-flag=corrupt-check-time=1h"); code != 0 ||
		out != "configuration: valid\n" {
		t.Errorf("code %d, %s", code, out)
	}
	code, out, _ := run(t, "", "validate", "--etcd-flag=corrupt-check-time=1h", "--version=3.5.35")
	if code != 2 || !strings.Contains(out,
		"--etcd-flag corrupt-check-time is not known to etcd 3.5.35 (it came with 3.6), use experimental-corrupt-check-time") {
		t.Errorf("code %d, %s", code, out)
	}
	path := file(t, "member.yaml", head+"etcd: {flags: {corrupt-check-time: 1h}}\n")
	if code, out, _ = run(t, "", "validate", "--config", path, "--version=3.5.35"); code != 2 ||
		!strings.Contains(out, path+":3:36: etcd.flags.corrupt-check-time: is not known") {
		t.Errorf("code %d, %s", code, out)
	}
	t.Setenv("ETCDADM_CONFIG", path)
	if code, out, _ = run(t, "", "validate"); code != 0 || out != "configuration: valid\n" {
		t.Errorf("of the environment: code %d, %s", code, out)
	}
}

func TestValidateNothing(t *testing.T) {
	if code, _, errs := run(t, "", "validate"); code != 2 ||
		!strings.Contains(errs, "hint: etcdadm config validate FILE") {
		t.Errorf("code %d, %s", code, errs)
	}
	if code, _, errs := run(t, "", "validate", "x", "--name=a"); code != 2 ||
		!strings.Contains(errs, "files and --name do not go together") {
		t.Errorf("code %d, %s", code, errs)
	}
	if code, _, errs := run(t, ""); code != 2 ||
		!strings.Contains(errs, "config needs a command: migrate, print, validate") {
		t.Errorf("code %d, %s", code, errs)
	}
}

// retired is a directory with the files of the retired etcdadm; etcd is a
// program that says its version.
func retired(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var env strings.Builder
	for _, line := range []string{
		"NAME=node-1", "DATA_DIR=/var/lib/etcd", "INITIAL_CLUSTER=node-1=https://10.0.0.1:2380", "INITIAL_CLUSTER_STATE=new",
		"INITIAL_ADVERTISE_PEER_URLS=https://10.0.0.1:2380", "LISTEN_PEER_URLS=https://10.0.0.1:2380",
		"ADVERTISE_CLIENT_URLS=https://10.0.0.1:2379", "LISTEN_CLIENT_URLS=https://10.0.0.1:2379,https://127.0.0.1:2379",
		"CERT_FILE=/pki/server.crt", "KEY_FILE=/pki/server.key", "TRUSTED_CA_FILE=/pki/ca.crt",
		"PEER_CERT_FILE=/pki/peer.crt", "PEER_KEY_FILE=/pki/peer.key", "PEER_TRUSTED_CA_FILE=/pki/ca.crt",
		"EXPERIMENTAL_CORRUPT_CHECK_TIME=1h",
	} {
		env.WriteString("ETCD_" + line + "\n")
	}
	for name, text := range map[string]string{
		"etcd.env":     env.String() + "GOMAXPROCS=2\n",
		"etcd.service": "[Service]\nEnvironmentFile=" + dir + "/etcd.env\nExecStart=" + dir + "/etcd\nNice=-10\n",
		"etcd":         "#!/bin/sh\necho etcd Version: 3.5.35\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestMigrateFromTheMachine(t *testing.T) {
	dir := retired(t)
	args := []string{"migrate", "--env-file", dir + "/etcd.env", "--unit", dir + "/etcd.service"}
	code, out, errs := run(t, "", args...)
	if code != 0 {
		t.Fatal(errs)
	}
	f, err := configfile.Parse("x", []byte(out))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := f.Config
	if c.Name != "node-1" || c.Version.String() != "3.5.35" || c.Listen.Address != "10.0.0.1" || c.Paths.Install != dir ||
		c.Paths.Units != dir || c.Paths.Environment != dir ||
		c.Etcd.Flags["experimental-corrupt-check-time"] != "1h" || len(c.Service.Priorities) != 1 {
		t.Errorf("got %s", out)
	}
	if !strings.Contains(errs, "note: GOMAXPROCS is left out") || strings.Contains(errs, "set version") ||
		strings.Contains(errs, "correct before") {
		t.Errorf("notes: %s", errs)
	}

	if code, out, errs = run(t, "", append(args, "--version=v3.7.3", "-o=json")...); code != 0 ||
		!strings.Contains(out, `"version": "3.7.3"`) ||
		!strings.Contains(errs, "fix this before use: etcd.flags.experimental-corrupt-check-time is gone from etcd 3.7.3") {
		t.Errorf("for another version: code %d, %s%s", code, out, errs)
	}
	if err := os.Remove(dir + "/etcd"); err != nil {
		t.Fatal(err)
	}
	if code, out, errs = run(t, "", args...); code != 0 || strings.Contains(out, "\nversion:") ||
		!strings.Contains(errs, "note: set version to the one that runs") {
		t.Errorf("without a binary: code %d, %s%s", code, out, errs)
	}
}

func TestMigrateAStaticPod(t *testing.T) {
	pod := file(t, "etcd.manifest", `
kind: Pod
spec:
  containers:
  - name: etcd
    image: quay.io/coreos/etcd:v3.5.35
    env:
    - {name: ETCD_NAME, value: a}
    - {name: ETCD_INITIAL_ADVERTISE_PEER_URLS, value: "https://10.0.0.1:2380"}
    - {name: ETCD_ADVERTISE_CLIENT_URLS, value: "https://10.0.0.1:2379"}
`)
	code, out, errs := run(t, "", "migrate", "--manifest", pod)
	if code != 0 || !strings.Contains(out, "name: a\nversion: 3.5.35\n") || !strings.Contains(out, "initSystem: kubelet") {
		t.Errorf("code %d, %s%s", code, out, errs)
	}
}

func TestMigrateAFile(t *testing.T) {
	path := file(t, "member.json",
		`{"kind": "Member", "etcd": {"quotaBytes": "1Gi"}, "name": "a", "apiVersion": "etcdadm.dev/v1"}`)
	if code, out, errs := run(t, "", "migrate", path); code != 0 ||
		out != head+"name: a\netcd:\n  quotaBytes: 1073741824\n" || errs != "" {
		t.Errorf("code %d, %s%s", code, out, errs)
	}
	if code, _, errs := run(t, "x: 1", "migrate", "-"); code != 2 || !strings.Contains(errs, "apiVersion: is missing") {
		t.Errorf("code %d, %s", code, errs)
	}
}

func TestMigrateNothing(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent")
	if code, _, errs := run(t, "", "migrate", "--env-file", absent); code != 1 || !strings.Contains(errs, absent) ||
		!strings.Contains(errs, "hint: --env-file, --unit and --manifest") {
		t.Errorf("code %d, %s", code, errs)
	}
	if code, _, errs := run(t, "", "migrate", "--manifest="); code != 2 ||
		!strings.Contains(errs, "there is no /etc/etcd/etcd.env") {
		t.Errorf("code %d, %s", code, errs)
	}
	env := file(t, "etcd.env", "X=1\n")
	if code, _, errs := run(t, "", "migrate", "--env-file", env); code != 1 ||
		!strings.Contains(errs, "it does not set ETCD_NAME") {
		t.Errorf("code %d, %s", code, errs)
	}
	if code, _, errs := run(t, "", "migrate", "--env-file", filepath.Dir(env)); code != 1 ||
		!strings.Contains(errs, "is a directory") {
		t.Errorf("code %d, %s", code, errs)
	}
}
