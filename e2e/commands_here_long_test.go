//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// aMachine runs a script where only the processes that it starts are to be seen, as on a
// machine of its own, and returns what it printed.
func aMachine(t *testing.T, c *harness.Cluster, script string) string {
	t.Helper()
	if _, err := exec.LookPath("unshare"); err != nil || os.Getuid() != 0 {
		t.Skipf("a machine with processes of its own needs root and unshare: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-euc", script)
	cmd.Env = append(os.Environ(), "PATH="+c.Bin+":"+os.Getenv("PATH"), "ETCDADM_ETCD_DIR="+c.EtcdDirs)
	cmd.Dir = c.Dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// On a machine where a daemon runs, the commands that show and save need no flag.
func TestCommandsOnADaemonsMachineNeedNoFlag(t *testing.T) {
	t.Parallel()
	c := start(t)
	a := c.Node("a")
	a.InstallPKI()
	c.SetSpec(1, v36)
	daemon := "etcd-manager '" + strings.Join(a.Args(), "' '") + "' >daemon.log 2>&1 &\ndaemon=$!\n"
	bin, err := etcdbin.Finder{Dirs: filepath.SplitList(c.EtcdDirs)}.Find(etcdversion.Must(v36))
	if err != nil {
		t.Fatal(err)
	}
	out := aMachine(t, c, "etcd='"+bin.Dir+"'\nstore='"+c.Store+"'\n"+daemon+`
n=0
until etcdadm status --check >status.txt 2>status.err; do
  n=$((n+1)); [ $n -lt 360 ] || { cat status.err daemon.log; exit 1; }; sleep 0.5
done
cat status.txt status.err
n=0
until etcdadm plan >plan.txt 2>&1 && grep -q 'as the spec says' plan.txt; do # after the first backup
  n=$((n+1)); [ $n -lt 360 ] || { cat plan.txt daemon.log; exit 1; }; sleep 0.5
done
cat plan.txt
etcdadm observe
n=0
until etcd-manager-ctl top --count=1 >top.txt 2>&1 && grep -q HEALTHY top.txt; do # the store is reported later
  n=$((n+1)); [ $n -lt 360 ] || { cat top.txt daemon.log; exit 1; }; sleep 0.5
done
cat top.txt
etcdadm alarm list
etcdadm snapshot save saved.db
etcdadm snapshot status saved.db
etcdadm etcdctl put who cares
etcdadm etcdctl --etcdctl="$etcd/etcdctl" member list -w fields
etcdadm certs client alice --out-dir=alice
(. alice/alice-etcdctl.env; "$etcd/etcdctl" get who)
etcdadm kubeadm config --kubernetes-version=1.34.1
etcdadm kubeadm bundle --out=- >bundle.tar.gz
tar tzf bundle.tar.gz
etcdadm certs user bob --out-dir=bob
etcd-manager-ctl status
kill -9 $daemon; wait || true
echo dead:
etcd-manager-ctl --backup-store="$store" status --check 2>&1 || echo "code $?"
etcd-manager-ctl --backup-store="$store" plan 2>&1 || echo "code $?"
`)
	alive, dead, _ := strings.Cut(out, "\ndead:\n")
	if strings.Contains(alive, "STALE") || strings.Count(dead, "code 9") != 2 ||
		!regexp.MustCompile(`(?m)^state +unknown; STALE: `).MatchString(dead) {
		t.Errorf("the dead cluster is not STALE, or the living one is:\n%s", out)
	}
	for _, want := range []string{
		"health       healthy", "the daemon on this machine is asked (process", "# the cluster is as the spec says",
		`"kind": "ClusterObservation"`, "the etcd of the daemon on this machine is asked", "there are no alarms",
		"OK\n", "test  HEALTHY\n", `"ClientURL" : "https://`, "issued to alice", "who\ncares\n", "  external:\n",
		"issued to bob, read-only",
		"etc/kubernetes/pki/apiserver-etcd-client.key\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
	if info, err := os.Stat(filepath.Join(c.Dir, "saved.db")); err != nil || info.Size() == 0 {
		t.Errorf("no snapshot was saved: %v", err)
	}
}

// On one of three machines, where the daemon has a store that the commands do not see, as in
// a pod, status shows what the daemons know: all three, the spec, and the backups.
func TestStatusOnAMachineThatDoesNotSeeTheStore(t *testing.T) {
	t.Parallel()
	c := start(t)
	a := c.Node("a")
	a.InstallPKI()
	c.SetSpec(3, v36)
	c.Start("b", "c")
	out := aMachine(t, c, "store='"+c.Store+"'\nb="+c.Node("b").Endpoint()+"\npki='"+c.Node("b").InstallPKI()+"'\n"+
		"etcd-manager '"+strings.Join(a.Args(), "' '")+"' >daemon.log 2>&1 &\ndaemon=$!\n"+`
hidden() { unshare --mount sh -c 'mount -t tmpfs none "$0" && exec "$@"' "$store" "$@"; }
n=0
until hidden etcdadm status --check >status.txt 2>status.err && grep -q '^last backup  20' status.txt; do
  n=$((n+1)); [ $n -lt 360 ] || { cat status.txt status.err daemon.log; exit 1; }; sleep 0.5
done
cat status.txt status.err
hidden etcdadm plan
echo of one:
hidden etcdadm status --check --cluster-name=test --nodes="$b" --pki-dir="$pki"
kill $daemon; wait
`)
	for _, want := range []string{
		"its store is not reachable from here", "spec         3 of etcd " + v36, "# the cluster is as the spec says",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
	_, one, _ := strings.Cut(out, "of one:")
	for _, name := range []string{"a", "b", "c"} {
		if !regexp.MustCompile(`(?m)^` + name + ` .* voter.* healthy `).MatchString(one) {
			t.Errorf("member %s is not healthy as one daemon shows it:\n%s", name, one)
		}
	}
}
