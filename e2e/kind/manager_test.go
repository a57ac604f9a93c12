//go:build e2e

package kind

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

// The versions of etcd that a scenario begins and ends with.
const (
	oldEtcd = "3.5.35"
	newEtcd = "3.6.16"
)

// kopsCluster is the name of the Kubernetes cluster, as kops has it.
const kopsCluster = "kind.example.com"

// An etcdCluster is one of the clusters of etcd that kops has, with its ports.
type etcdCluster struct {
	name                                           string
	cluster                                        string
	clientPort, peerPort, grpcPort, quarantinePort int
	log                                            string
}

var (
	mainEtcd   = etcdCluster{"main", "etcd", 4001, 2380, 3996, 3994, "/var/log/etcd.log"}
	eventsEtcd = etcdCluster{"events", "etcd-events", 4002, 2381, 3997, 3995, "/var/log/etcd-events.log"}
)

// kopsPatches are the configuration of the API server as kops has it: each uses the members of its
// own machine.
var kopsPatches = []string{`kind: ClusterConfiguration
etcd:
  local: null
  external:
    endpoints: ["https://127.0.0.1:4001"]
    caFile: /etc/kubernetes/pki/kube-apiserver/etcd-ca.crt
    certFile: /etc/kubernetes/pki/kube-apiserver/etcd-client.crt
    keyFile: /etc/kubernetes/pki/kube-apiserver/etcd-client.key
apiServer:
  extraArgs:
    etcd-servers-overrides: /events#https://127.0.0.1:4002
`}

// A managed scenario has control planes whose etcd the daemons run, as static pods in the form of kops.
type managed struct {
	*Cluster
	dir, store string
	archive    string
	programs   string
	files      map[string][]byte
}

// newManaged makes the machines, with etcd's binaries at /opt, and what all of them get.
func newManaged(t *testing.T) *managed {
	t.Helper()
	s := &managed{dir: t.TempDir(), files: map[string][]byte{}}
	s.store = filepath.Join(s.dir, "store")
	if err := os.Mkdir(s.store, 0o700); err != nil {
		t.Fatal(err)
	}
	s.programs, s.archive = build(t, s.dir, "etcd-manager")
	mounts := []v1alpha4.Mount{{HostPath: s.store, ContainerPath: "/mnt/etcd-store"}}
	for _, v := range []string{oldEtcd, newEtcd} {
		mounts = append(mounts, v1alpha4.Mount{HostPath: etcd(t, v), ContainerPath: "/opt/etcd-v" + v, Readonly: true})
	}
	clients := newAuthority(t, "etcd-clients-ca")
	const api = "/etc/kubernetes/pki/kube-apiserver/"
	s.files[api+"etcd-ca.crt"] = clients.files(api + "x")[api+"x.crt"]
	maps.Copy(s.files, clients.client(t, api+"etcd-client", "kube-apiserver"))
	for _, e := range []etcdCluster{mainEtcd, eventsEtcd} {
		pki := "/etc/kubernetes/pki/etcd-manager-" + e.name + "/"
		maps.Copy(s.files, clients.files(pki+"etcd-clients-ca"))
		maps.Copy(s.files, newAuthority(t, "etcd-peers-ca-"+e.name).files(pki+"etcd-peers-ca"))
		maps.Copy(s.files, newAuthority(t, "etcd-manager-ca-"+e.name).files(pki+"etcd-manager-ca"))
		s.ctl(t, e, "configure-cluster", "--member-count=3", "--etcd-version="+oldEtcd)
	}
	s.Cluster = newCluster(t, "etcdadm-managed", 3, kopsPatches, mounts)
	return s
}

// ctl runs etcd-manager-ctl on the store of a cluster of etcd.
func (s *managed) ctl(t *testing.T, e etcdCluster, args ...string) string {
	t.Helper()
	out, err := command(t.Context(), nil, s.programs+"/etcd-manager-ctl",
		append(args, "--backup-store=file://"+filepath.Join(s.store, e.name))...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// member returns the name of a machine's members.
func (s *managed) member(m machine) string {
	return "etcd-" + string(rune('a'+slices.Index(s.machines, m)))
}

// equip puts all that kops does on a machine, and the pods last.
func (s *managed) equip(t *testing.T, m machine, found bool) {
	t.Helper()
	m.load(t, s.archive)
	files := maps.Clone(s.files)
	for _, e := range []etcdCluster{mainEtcd, eventsEtcd} {
		files["/etc/kubernetes/manifests/etcd-"+e.name+".manifest"] = s.pod(t, m, e)
		dir := "/mnt/disks/" + kopsCluster + "--" + e.name + "--" + s.member(m) + "/mnt"
		m.must(t, "mkdir -p "+dir)
		if found {
			m.must(t, "touch "+dir+"/please-create-new-cluster")
		}
	}
	m.put(t, files)
}

// pod renders the pod of a daemon.
func (s *managed) pod(t *testing.T, m machine, e etcdCluster) []byte {
	t.Helper()
	var seeds []string
	for _, o := range s.machines {
		seeds = append(seeds, fmt.Sprintf("%s:%d", o, e.grpcPort))
	}
	out, err := command(t.Context(), nil, s.programs+"/etcdadm", "render", "etcd-manager", "--as=kops-pod",
		"--image=docker.io/etcdadm/etcd-manager:"+version, "--name=etcd-manager-"+e.name, "--",
		"--backup-store=file:///rootfs/mnt/etcd-store/"+e.name, fmt.Sprintf("--client-urls=https://__name__:%d", e.clientPort),
		"--cluster-name="+e.cluster, "--containerized=true", "--dns-suffix=.internal."+kopsCluster,
		fmt.Sprintf("--grpc-port=%d", e.grpcPort), fmt.Sprintf("--peer-urls=https://__name__:%d", e.peerPort),
		fmt.Sprintf("--quarantine-client-urls=https://__name__:%d", e.quarantinePort), "--v=6",
		"--volume-provider=external", "--volume-tag="+kopsCluster+"--"+e.name+"--",
		"--address="+m.address(t), "--seeds="+strings.Join(seeds, ","), "--etcd-dir=/rootfs/opt", "--node-name="+s.member(m))
	if err != nil {
		t.Fatal(err)
	}
	return []byte(out)
}

// etcdctl asks a machine's member.
func (s *managed) etcdctl(ctx context.Context, m machine, e etcdCluster, args string) (string, error) {
	const pki = "/etc/kubernetes/pki/kube-apiserver/"
	return m.run(ctx, fmt.Sprintf("/opt/etcd-v%s/etcdctl --endpoints=https://127.0.0.1:%d --cacert=%setcd-ca.crt "+
		"--cert=%setcd-client.crt --key=%setcd-client.key %s", newEtcd, e.clientPort, pki, pki, pki, args))
}

// voters waits until a cluster of etcd has three voters, one on each machine, which serve and have a version.
func (s *managed) voters(t *testing.T, e etcdCluster, version string) {
	t.Helper()
	s.votersOn(t, e, version, s.machines)
}

// votersOn waits until a cluster of etcd has one voter on each of some machines and no other member.
func (s *managed) votersOn(t *testing.T, e etcdCluster, version string, machines []machine) {
	t.Helper()
	var want []string
	for _, m := range machines {
		want = append(want, s.member(m))
	}
	what := fmt.Sprintf("%s has the voters %v of etcd %s", e.name, want, version)
	await(t, what, 5*time.Minute, func(ctx context.Context) error {
		for _, m := range machines {
			out, err := s.etcdctl(ctx, m, e, "member list -w json")
			if err != nil {
				return err
			}
			var list struct {
				Members []struct {
					Name      string `json:"name"`
					IsLearner bool   `json:"isLearner"`
				} `json:"members"`
			}
			if err := json.Unmarshal([]byte(out), &list); err != nil {
				return err
			}
			var names []string
			for _, l := range list.Members {
				if !l.IsLearner {
					names = append(names, l.Name)
				}
			}
			slices.Sort(names)
			if !slices.Equal(names, want) || len(list.Members) != len(want) {
				return fmt.Errorf("%s has members %+v", m, list.Members)
			}
			out, err = s.etcdctl(ctx, m, e, "endpoint status -w json")
			if err != nil {
				return err
			}
			if !strings.Contains(out, `"version":"`+version+`"`) {
				return fmt.Errorf("%s: %s", m, out)
			}
		}
		return nil
	})
}

// Static pods of etcd-manager in the form of kops, for main and events, are the etcd of three
// control planes: from nothing, when a machine is lost and replaced, when one and when all are cut
// off from their power, with one member and three again, through an upgrade under load and the
// restore of an older backup. A short run leaves the machines and the members alone.
func TestManagedStaticPods(t *testing.T) {
	s := newManaged(t)
	for i, m := range s.machines {
		s.equip(t, m, i == 0)
		m.standalone(t)
	}
	for _, e := range []etcdCluster{mainEtcd, eventsEtcd} {
		s.voters(t, e, oldEtcd)
	}
	first := s.machines[0]
	first.init(t)
	for _, m := range s.machines[1:] {
		m.join(t, first)
	}
	w := s.api(t).write(t)
	w.more(t, 50)

	if !testing.Short() {
		s.machineIsReplaced(t, w)
		s.machineRestarts(t, w)
		s.membersLeaveAndReturn(t, w)
		s.machinesRestart(t, w)
	}
	s.etcdIsUpgraded(t, w)
	w.check(t, 0, 0)
	s.backupIsRestored(t, w)
}

// etcdIsUpgraded takes both clusters of etcd to the next minor version.
func (s *managed) etcdIsUpgraded(t *testing.T, w *Writer) {
	for _, e := range []etcdCluster{mainEtcd, eventsEtcd} {
		w.during(t, "etcd of "+e.name+" is upgraded from "+oldEtcd+" to "+newEtcd, func() {
			s.ctl(t, e, "configure-cluster", "--etcd-version="+newEtcd)
			s.voters(t, e, newEtcd)
		})
	}
}

// backupIsRestored takes main back to a backup, after which more was written.
func (s *managed) backupIsRestored(t *testing.T, w *Writer) {
	before := w.count()
	followers := s.follow(t)
	s.ctl(t, mainEtcd, "take-backup", "--wait")
	after := w.count()
	w.more(t, 100)
	name := s.backup(t)
	revision := s.revision(t)
	written := 0
	w.during(t, "an older backup is restored", func() {
		noted(t, followers)
		written = w.count()
		t.Log(s.ctl(t, mainEtcd, "restore-backup", name, "--wait"))
		written = w.count() - written
	})
	if now := s.revision(t); now <= revision+1_000_000 {
		t.Errorf("the revision is %d after the restore, and was %d: watches do not notice", now, revision)
	}
	t.Logf("%d writes were acknowledged while the backup was restored", written)
	for _, f := range followers {
		f.hasFollowed(t)
	}
	nodesLive(t, followers)
	// What was written between the backup and the switch is gone, as it has to be.
	if n := w.at(after + 50); has(w.present(t), n) {
		t.Errorf("the write %d is there, which is younger than the backup", n)
	}
	w.check(t, w.at(before), w.at(w.count()-20))
}

// backup returns the name of the newest backup of main.
func (s *managed) backup(t *testing.T) string {
	t.Helper()
	lines := strings.Fields(s.ctl(t, mainEtcd, "list-backups"))
	return lines[len(lines)-1]
}

// revision returns the revision of main.
func (s *managed) revision(t *testing.T) int64 {
	t.Helper()
	out, err := s.etcdctl(t.Context(), s.machines[0], mainEtcd, "endpoint status -w json")
	if err != nil {
		t.Fatal(err)
	}
	var status []struct {
		Status struct {
			Header struct {
				Revision int64 `json:"revision"`
			} `json:"header"`
		} `json:"Status"`
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil || len(status) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	return status[0].Status.Header.Revision
}
