package etcdadm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/daemons"
	"github.com/etcdadm/etcdadm/pkg/testing/testchild"
)

// Without a flag the commands reach the daemon on this machine, as its command line says; what
// a person says comes first, and two daemons are one too many.
func TestTheDaemonOnThisMachineIsAsked(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	world := filepath.Join(dir, "world.json")
	text := `{"spec": {}, "observation": {"at": "2026-11-25T03:00:00Z"}}`
	if err := os.WriteFile(world, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ETCDADM_TEST_WORLD", world)
	for _, f := range connectFlags {
		t.Setenv(variable(f), "")
	}
	store := "s3://bucket/etcd"
	one := daemons.Daemon{PID: testchild.Named(t, "etcd-manager", "--backup-store="+store, "--cluster-name=main",
		"--address=10.0.0.7", "--grpc-port=3996", "--pki-dir=/pki", "--etcd-insecure"), Store: store, Cluster: "main"}
	run := func(found []daemons.Daemon, args ...string) (ConnectOptions, string, int) {
		_ = os.Remove("options.json")
		root := newTree(openFake, func() ([]daemons.Daemon, error) { return found, nil })
		var reported bytes.Buffer
		root.SetErr(&reported)
		root.SetOut(&reported)
		code := cli.Run(t.Context(), root, args)
		var o ConnectOptions
		if b, err := os.ReadFile("options.json"); err == nil {
			if err := json.Unmarshal(b, &o); err != nil {
				t.Fatal(err)
			}
		}
		return o, reported.String(), code
	}
	for _, command := range []string{"status", "plan", "observe"} {
		o, reported, _ := run([]daemons.Daemon{one}, command)
		if fmt.Sprint(o.Nodes) != "[10.0.0.7:3996]" || o.ClusterName != "main" || o.BackupStore != store ||
			o.PKIDir != "/pki" || o.Insecure || !o.EtcdInsecure {
			t.Errorf("%s: %+v, %s", command, o, reported)
		}
		if strings.Count(reported, "the daemon on this machine is asked") != 1 {
			t.Errorf("%s does not say once who is asked: %s", command, reported)
		}
	}
	if o, _, _ := run([]daemons.Daemon{one}, "plan", "--nodes=b=10.0.0.8:1", "--insecure"); len(o.Nodes) != 1 ||
		o.Nodes[0] != "b=10.0.0.8:1" || o.BackupStore != "" {
		t.Errorf("a flag is not what counts: %+v", o)
	}
	elsewhere := one
	elsewhere.Elsewhere = true
	if o, reported, _ := run([]daemons.Daemon{elsewhere}, "plan"); o.BackupStore != "" || len(o.Nodes) != 1 ||
		!strings.Contains(reported, "its store is not reachable from here") {
		t.Errorf("a store in a container: %+v, %s", o, reported)
	}
	pid := testchild.Named(t, "etcd-manager", "--backup-store=s3://b/events", "--cluster-name=events")
	two := []daemons.Daemon{one, {PID: pid, Store: "s3://b/events", Cluster: "events"}}
	if o, reported, code := run(two, "plan", "--spec-member-count=3"); code != 2 || len(o.Nodes) != 0 ||
		!strings.Contains(reported, "\nhint: etcdadm plan --spec-member-count=3 --cluster-name=main --nodes=10.0.0.7:3996 "+
			"--backup-store=s3://bucket/etcd --pki-dir=/pki --etcd-insecure\n"+
			"hint: etcdadm plan --spec-member-count=3 --cluster-name=events --nodes=127.0.0.1:8000 "+
			"--backup-store=s3://b/events --pki-dir=/etc/kubernetes/pki/etcd-manager\n") {
		t.Errorf("two daemons: %d, %+v, %s", code, o, reported)
	}
	if _, reported, code := run(nil, "plan"); code != 2 || !strings.Contains(reported, "--backup-store or --nodes") {
		t.Errorf("no daemon: %d, %s", code, reported)
	}
}
