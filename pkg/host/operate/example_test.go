package operate_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdrelease"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/configfile"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
)

// below returns the spec of an example: a static pod whose files are all below
// dir. On a real machine the defaults are right.
func below(dir string) machine.Config {
	cfg := machine.Defaults()
	cfg.Name = "node1"
	cfg.Listen.Address = "127.0.0.1"
	cfg.Listen.ClientPort, cfg.Listen.PeerPort = 22379, 22380
	cfg.Service.InitSystem = machine.Kubelet
	cfg.Paths = machine.Paths{
		Data: dir + "/data", Certificates: dir + "/pki", Install: dir + "/bin", Cache: dir + "/cache",
		Environment: dir + "/etc", Units: dir + "/units", Manifests: dir + "/manifests",
	}
	return cfg
}

// What would be done, without doing it: observe once, and let the planner go on
// from there by itself. It is what "etcdadm init --dry-run" prints.
func ExampleMachine_Observe() {
	dir, err := os.MkdirTemp("", "machine-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	m, err := operate.New(context.Background(), operate.Options{Config: below(dir)})
	if err != nil {
		log.Fatal(err)
	}
	goal := machine.Goal{Action: machine.Init}
	seen, err := m.Observe(ctx, goal)
	if err != nil {
		log.Fatal(err)
	}
	steps, hold, err := machine.Plan(goal, m.Config(), seen)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range steps {
		what, _, _ := strings.Cut(s.Text(), ":")
		fmt.Println(s.Phase+":", strings.ReplaceAll(what, dir, ""))
	}
	fmt.Println("held:", hold != nil)
	// Output:
	// certificates: create a certificate authority in /pki
	// certificates: issue certificates in /pki
	// configure: record that a cluster is bootstrapped here
	// start: make the data directory /data
	// start: start etcd
	// start: record that the member has data
	// etcdctl: write /etc/etcdctl.env, /bin/etcdctl.sh
	// health: wait until etcd serves
	// held: false
}

// A machine is prepared for a kubelet that is started later, as in the image of
// a machine or in a bootstrap container: everything is done but the waiting.
// To run it again finds nothing to do.
func ExampleMachine_Run() {
	dir, err := os.MkdirTemp("", "machine-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	m, err := operate.New(context.Background(), operate.Options{
		Config: below(dir),
		Began:  func(s machine.Step) { fmt.Println("begin", s.Phase) },
	})
	if err != nil {
		log.Fatal(err)
	}
	goal := machine.Goal{Action: machine.Init, Skip: []string{"health"}}
	for range 2 {
		r, err := m.Run(ctx, goal)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("steps done:", len(r.Steps))
	}
	for _, file := range []string{"manifests/etcd.manifest", "pki/ca.crt", "pki/apiserver-etcd-client.key"} {
		_, err := os.Stat(filepath.Join(dir, file))
		fmt.Println(file, err == nil)
	}
	// Output:
	// begin certificates
	// begin certificates
	// begin configure
	// begin start
	// begin start
	// begin etcdctl
	// steps done: 6
	// steps done: 0
	// manifests/etcd.manifest true
	// pki/ca.crt true
	// pki/apiserver-etcd-client.key true
}

// What is not safe, or cannot be done, is a *machine.Hold: a reason that a
// program may depend on, a text and a hint for people. Nothing was done that
// the next run would not go on from.
func ExampleMachine_Run_hold() {
	dir, err := os.MkdirTemp("", "machine-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	m, err := operate.New(context.Background(), operate.Options{
		Config: below(dir), Endpoints: []string{"https://127.0.0.1:22389"},
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = m.Run(context.Background(), machine.Goal{Action: machine.Join})
	var hold *machine.Hold
	if errors.As(err, &hold) {
		fmt.Println(hold.Reason, hold.Reason == machine.CAMissing)
		fmt.Println(strings.ReplaceAll(hold.Text, dir, ""))
	}
	// Output:
	// ca-missing true
	// there is no certificate authority in /pki
}

// A configuration file is the spec as text. Its errors say where they are.
func Example_configuration() {
	file, err := configfile.Parse("member.yaml", []byte(`apiVersion: etcdadm.dev/v1
kind: Member
name: node1
listen: {address: 10.0.0.1}
etcd: {quotaBytes: 8Gi}
`))
	if err != nil {
		log.Fatal(err)
	}
	cfg := configfile.Overlay(machine.Defaults(), file.Config)
	fmt.Println(machine.URLs(cfg).Client, cfg.Etcd.QuotaBytes, cfg.Paths.Data)

	_, err = configfile.Parse("member.yaml", []byte("apiVersion: etcdadm.dev/v1\nkind: Member\nnmae: node1\n"))
	var wrong configfile.Errors
	if errors.As(err, &wrong) {
		fmt.Println(wrong[0].Line, wrong[0].Path, wrong)
	}
	// Output:
	// [https://10.0.0.1:2379] 8589934592 /var/lib/etcd
	// 3 nmae member.yaml:3:1: nmae: unknown field, did you mean name?
}

// Binaries from a directory; an archive, an image or a URL is another field of
// Sources. They are run before they are put in place, and left alone when they
// are there already.
func Example_release() {
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for name, says := range map[string]string{
		"etcd": "etcd Version: 3.6.16", "etcdctl": "etcdctl version: 3.6.16", "etcdutl": "etcdutl version: 3.6.16",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho "+says+"\n"), 0o755); err != nil {
			log.Fatal(err)
		}
	}

	o := etcdrelease.Options{Version: etcdversion.Must("3.6.16"), Sources: machine.Binaries{Dir: dir}}
	for range 2 {
		done, err := etcdrelease.Install(context.Background(), o, filepath.Join(dir, "installed"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(done.Changed, done.Version, filepath.Base(done.Etcdutl))
	}
	o.Version = etcdversion.Must("3.6.17")
	_, err = etcdrelease.Install(context.Background(), o, filepath.Join(dir, "installed"))
	var other *etcdrelease.VersionError
	fmt.Println("of another version:", errors.As(err, &other))
	// Output:
	// true 3.6.16 etcdutl
	// false 3.6.16 etcdutl
	// of another version: true
}

// The files of the init systems are functions of values, for programs that put
// them on a machine in their own way, as in user data.
func Example_files() {
	unit, err := initfiles.Unit(initfiles.UnitOptions{
		Etcd: "/opt/bin/etcd", EnvFile: "/etc/etcd/etcd.env", DataDir: "/var/lib/etcd", User: "etcd",
	})
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(unit) {
		if strings.HasPrefix(line, "User=") || strings.HasPrefix(line, "ExecStart=") ||
			strings.HasPrefix(line, "CapabilityBoundingSet=") {
			fmt.Print(line)
		}
	}
	env, err := initfiles.EnvFile([]string{"ETCD_NAME=node1", "EXTRA=two words"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(env)
	vars, err := initfiles.ParseEnvFile(env)
	fmt.Println(vars["EXTRA"], err)
	fmt.Println(initfiles.Image("registry.k8s.io/etcd", etcdversion.Must("3.6.16")))
	// Output:
	// ExecStart=/opt/bin/etcd
	// User=etcd
	// CapabilityBoundingSet=
	// # Written by etcdadm, which replaces the whole file.
	// ETCD_NAME=node1
	// EXTRA="two words"
	// two words <nil>
	// registry.k8s.io/etcd:3.6.16-0
}

// The page about the library quotes these examples, line by line.
func TestThePageQuotesTheExamples(t *testing.T) {
	page, err := os.ReadFile("../../../docs/etcdadm-go.md")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the page is not there: this is not the whole tree")
	}
	if err != nil {
		t.Fatal(err)
	}
	var have string
	for _, file := range []string{"example_test.go", "../../certs/example_test.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		have += flat(string(text))
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("the page has no example")
	}
	for _, b := range blocks {
		code, _, _ := strings.Cut(b, "```")
		if !strings.Contains(have, "\n"+flat(code)) {
			t.Errorf("no example has this:\n%s", code)
		}
	}
}

// flat takes the indentation away.
func flat(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, "\t"))
	}
	return b.String()
}
