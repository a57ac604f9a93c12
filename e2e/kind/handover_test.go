//go:build e2e

package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

// A handed scenario has control planes whose etcd is handed to the daemons, and back.
type handed struct {
	*byHand
	store string
	// local API servers use the member of their own machine alone.
	local bool
}

// off does something while the API server of a machine is off, if that uses the machine's member
// alone: without etcd it keeps the kubelet waiting for half a minute, twice.
func (s *handed) off(t *testing.T, w *Writer, m machine, do func()) {
	t.Helper()
	if !s.local {
		do()
		return
	}
	staying := started(t, s.others(m))
	w.ends(m)
	m.apiOff(t)
	do()
	m.apiOn(t)
	w.ends("")
	stayed(t, staying)
}

// oneByOne does something with each machine. No write fails meanwhile, but with an API server that is
// ended, or with etcd's leader.
func (s *handed) oneByOne(t *testing.T, w *Writer, what string, do func(machine)) {
	t.Helper()
	failed := w.during(t, what, func() {
		for _, m := range s.machines {
			s.off(t, w, m, func() { do(m) })
		}
	})
	serving(t, failed, failure.cutOff, failure.withTheLeader)
	w.check(t, 0, 0)
}

// newHanded makes the machines, with images of etcd and of the daemon, etcdadm, and a store that
// they share.
func newHanded(t *testing.T, name string, patches []string, images ...string) *handed {
	t.Helper()
	s := &handed{byHand: &byHand{version: newEtcd}, store: t.TempDir()}
	s.programs, s.archive = build(t, t.TempDir(), append(images, "etcd:"+newEtcd)...)
	s.Cluster = newCluster(t, name, 3, patches, []v1alpha4.Mount{
		{HostPath: etcd(t, newEtcd), ContainerPath: "/opt/etcd-v" + newEtcd, Readonly: true},
		{HostPath: s.store, ContainerPath: "/mnt/etcd-store"},
	})
	return s
}

// ctl runs etcd-manager-ctl on the store.
func (s *handed) ctl(t *testing.T, args ...string) {
	t.Helper()
	out, err := command(t.Context(), nil, filepath.Join(s.programs, "etcd-manager-ctl"),
		append(args, "--backup-store=file://"+s.store)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("etcd-manager-ctl %s\n%s", strings.Join(args, " "), out)
}

// etcdctl asks the member of a machine, with the certificate of its API server.
func (s *handed) etcdctl(ctx context.Context, m machine, args string) (string, error) {
	const pki = "/etc/kubernetes/pki/"
	return m.run(ctx, "/opt/etcd-v"+newEtcd+"/etcdctl --endpoints=https://127.0.0.1:2379 --cacert="+pki+"etcd/ca.crt "+
		"--cert="+pki+"apiserver-etcd-client.crt --key="+pki+"apiserver-etcd-client.key "+args)
}

// serves waits until the member of a machine is healthy, and all members are voters.
func (s *handed) serves(t *testing.T, m machine) {
	t.Helper()
	await(t, "the member of "+string(m)+" is healthy", 3*time.Minute, func(ctx context.Context) error {
		if _, err := s.etcdctl(ctx, m, "endpoint health"); err != nil {
			return err
		}
		out, err := s.etcdctl(ctx, m, "member list")
		if err != nil {
			return err
		}
		if strings.Count(out, "started") != len(s.machines) || strings.Count(out, "false") != len(s.machines) {
			return errors.New(out)
		}
		return nil
	})
}

// A daemon is what etcdadm says of the one that takes a machine over.
type daemon struct {
	Daemon struct {
		Environment []string `json:"environment"`
		Argv        []string `json:"argv"`
		Configure   string   `json:"configure"`
	} `json:"daemon"`
}

// toDaemon hands a machine over, and runs the daemon as a static pod, as the output says.
func (s *handed) toDaemon(t *testing.T, m machine) daemon {
	t.Helper()
	var d daemon
	out := s.etcdadm(t, m, "handover to-manager --backup-store=file:///mnt/etcd-store -l error -o json")
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	args := []string{"exec", string(m), "etcdadm", "render", "etcd-manager",
		"--image=docker.io/etcdadm/etcd-manager:" + version}
	for _, e := range d.Daemon.Environment {
		args = append(args, "--env="+e)
	}
	pod, err := docker(t.Context(), append(append(args, "--"), d.Daemon.Argv[1:]...)...)
	if err != nil {
		t.Fatal(err)
	}
	m.put(t, map[string][]byte{managerPod: []byte(pod + "\n")})
	s.serves(t, m)
	return d
}

const managerPod = "/etc/kubernetes/manifests/etcd-manager.manifest"

// fromDaemon stops the daemon of a machine, and takes its member back.
func (s *handed) fromDaemon(t *testing.T, m machine) {
	t.Helper()
	m.must(t, "rm "+managerPod)
	await(t, string(m)+" is handed back", 3*time.Minute, func(ctx context.Context) error {
		_, err := m.run(ctx, hand+"etcdadm handover from-manager 2>&1")
		return err
	})
	s.serves(t, m)
}

// toDaemonsAndBack hands all machines to the daemons, has these do something, and takes them back.
func (s *handed) toDaemonsAndBack(t *testing.T, w *Writer) {
	t.Helper()
	var d daemon
	s.oneByOne(t, w, "three machines are handed to the daemons", func(m machine) { d = s.toDaemon(t, m) })
	if !strings.Contains(d.Daemon.Configure, "configure-cluster") {
		t.Errorf("the spec is to be written by %q", d.Daemon.Configure)
	}
	s.ctl(t, "configure-cluster", fmt.Sprint("--member-count=", len(s.machines)), "--etcd-version="+newEtcd)
	failed := w.during(t, "the daemons take a backup", func() { s.ctl(t, "take-backup", "--wait") })
	serving(t, failed, failure.withTheLeader) // which went before the backup
	s.ctl(t, "pause")
	s.oneByOne(t, w, "three machines are handed back", func(m machine) { s.fromDaemon(t, m) })
	s.healthy(t)
}

// The etcd that etcdadm runs as static pods, and that kubeadm uses as external etcd, is handed to the
// daemons and handed back.
func TestHandover(t *testing.T) {
	long(t)
	s := newHanded(t, "etcdadm-handover", nil, "etcd-manager")
	s.found(t)
	w := s.api(t).write(t)
	w.more(t, 100)
	staying := started(t, s.machines)
	s.toDaemonsAndBack(t, w)
	stayed(t, staying)
}

// stackedPatches have kubeadm run an etcd of its own beside each API server, from our image.
var stackedPatches = []string{`kind: ClusterConfiguration
etcd:
  local:
    imageRepository: docker.io/etcdadm
    imageTag: v` + newEtcd + "\n"}

// stacked has kubeadm make control planes with etcd on them.
func (s *byHand) stacked(t *testing.T) {
	t.Helper()
	for _, m := range s.machines {
		s.tools(t, m)
	}
	first := s.machines[0]
	first.init(t)
	for _, m := range s.machines[1:] {
		first.copy(t, m, stackedPKI+"ca.crt", stackedPKI+"ca.key")
		m.join(t, first)
	}
}

const stackedPKI = "/etc/kubernetes/pki/etcd/"

// exchange puts a member that etcdadm runs in the place of kubeadm's.
func (s *handed) exchange(t *testing.T, m machine) {
	t.Helper()
	m.must(t, "mkdir -p /etc/etcd/pki; cp "+stackedPKI+"ca.crt "+stackedPKI+"ca.key /etc/etcd/pki; "+
		"mv /etc/kubernetes/manifests/etcd.yaml /root/; flock --timeout=120 /var/lib/etcd/member/snap/db true; "+
		"mv /var/lib/etcd /var/lib/etcd.kubeadm")
	s.etcdadm(t, m, "join "+endpoints(t, s.others(m)...)+" --replace-member")
	s.serves(t, m)
}

// giveBack puts a member that kubeadm runs in the place of etcdadm's.
func (s *handed) giveBack(t *testing.T, m machine) {
	t.Helper()
	s.etcdadm(t, m, "reset")
	m.must(t, "kubeadm join phase etcd-join --config=/kind/kubeadm.conf 2>&1")
	s.serves(t, m)
}

// The etcd that kubeadm has beside each API server is exchanged for one of etcdadm's, member by
// member, handed to the daemons, handed back and given back to kubeadm.
func TestStackedHandover(t *testing.T) {
	long(t)
	s := newHanded(t, "etcdadm-stacked", stackedPatches, "etcd-manager")
	s.local = true
	s.stacked(t)
	w := s.api(t).write(t)
	w.more(t, 100)
	s.oneByOne(t, w, "etcdadm takes over from kubeadm", func(m machine) { s.exchange(t, m) })
	s.healthy(t)
	s.toDaemonsAndBack(t, w)
	s.oneByOne(t, w, "kubeadm takes over from etcdadm", func(m machine) { s.giveBack(t, m) })
}
