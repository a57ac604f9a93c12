//go:build e2e

package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

// A byHand scenario has control planes whose etcd etcdadm runs, as static pods, and which kubeadm uses
// as an external etcd.
type byHand struct {
	*Cluster
	archive, programs string
	version           string
}

// etcdadm runs etcdadm on a machine.
func (s *byHand) etcdadm(t *testing.T, m machine, args string) string {
	t.Helper()
	return m.must(t, hand+"etcdadm "+args+" 2>&1")
}

// hand has etcdadm run etcd as a static pod, from our image.
const hand = "export ETCDADM_INIT_SYSTEM=kubelet ETCDADM_IMAGE_REPOSITORY=docker.io/etcdadm/etcd; "

// tools puts etcdadm and images on a machine.
func (s *byHand) tools(t *testing.T, m machine) {
	t.Helper()
	m.load(t, s.archive)
	b, err := os.ReadFile(filepath.Join(s.programs, "etcdadm"))
	if err != nil {
		t.Fatal(err)
	}
	m.put(t, map[string][]byte{"/usr/local/bin/etcdadm": b})
	m.must(t, "chmod 0755 /usr/local/bin/etcdadm")
}

// equip starts the kubelet of a machine, without an API server yet.
func (s *byHand) equip(t *testing.T, m machine) {
	t.Helper()
	s.tools(t, m)
	m.standalone(t)
}

// found makes the cluster of etcd, and the control planes that use it.
func (s *byHand) found(t *testing.T) {
	t.Helper()
	for _, m := range s.machines {
		s.equip(t, m)
		s.member(t, m)
	}
	s.healthy(t)
	first := s.machines[0]
	for _, m := range s.machines {
		s.configure(t, m)
	}
	first.init(t)
	for _, m := range s.machines[1:] {
		m.join(t, first)
	}
}

// endpoints are the client URLs of the members on machines.
func endpoints(t *testing.T, machines ...machine) string {
	t.Helper()
	var urls []string
	for _, m := range machines {
		urls = append(urls, "https://"+m.address(t)+":2379")
	}
	return strings.Join(urls, ",")
}

// member makes a machine's member, the first or one more.
func (s *byHand) member(t *testing.T, m machine) {
	t.Helper()
	start := time.Now()
	if others := s.others(m); m == s.machines[0] {
		s.cutOff(t, m)
		s.etcdadm(t, m, "init --version="+s.version)
	} else {
		others[0].copy(t, m, "/etc/etcd/pki/ca.crt", "/etc/etcd/pki/ca.key")
		s.etcdadm(t, m, "join "+endpoints(t, others...)+" --version="+s.version)
	}
	t.Logf("the member of %s took %.1f s", m, time.Since(start).Seconds())
}

// cutOff kills an init as soon as the kubelet has a pod of it. The next one needs nobody's help.
func (s *byHand) cutOff(t *testing.T, m machine) {
	t.Helper()
	m.must(t, hand+"etcdadm init --version="+s.version+` >/root/init.log 2>&1 & pid=$!
		until test -e /etc/kubernetes/manifests/etcd.manifest; do
			kill -0 $pid || { cat /root/init.log; exit 1; }
		done
		kill -9 $pid; rc=0; wait $pid || rc=$?; test $rc = 137`) // it had not ended
}

// configure gives kubeadm's configuration the section that etcdadm prints, and the control plane
// the files that it names.
func (s *byHand) configure(t *testing.T, m machine) {
	t.Helper()
	s.etcdadm(t, m, "kubeadm bundle --out=/root/etcd-client.tar.gz && tar xzf /root/etcd-client.tar.gz -C /")
	var printed map[string]any
	text := m.must(t, "etcdadm kubeadm config --init-system=kubelet")
	if err := yaml.Unmarshal([]byte(text), &printed); err != nil || printed["etcd"] == nil {
		t.Fatalf("etcdadm kubeadm config: %v\n%s", err, text)
	}
	var docs []string
	for doc := range strings.SplitSeq(m.must(t, "cat /kind/kubeadm.conf"), "\n---\n") {
		var conf map[string]any
		if err := yaml.Unmarshal([]byte(doc), &conf); err != nil {
			t.Fatal(err)
		}
		if conf["kind"] == "ClusterConfiguration" {
			conf["etcd"] = printed["etcd"]
		}
		b, err := yaml.Marshal(conf)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(b))
	}
	m.put(t, map[string][]byte{"/kind/kubeadm.conf": []byte(strings.Join(docs, "---\n"))})
}

// healthy waits until etcdadm says that all members are healthy and of the version.
func (s *byHand) healthy(t *testing.T) {
	t.Helper()
	for _, m := range s.machines {
		await(t, "etcdadm status on "+string(m), 3*time.Minute, func(ctx context.Context) error {
			out, err := m.run(ctx, "ETCDADM_INIT_SYSTEM=kubelet etcdadm status 2>&1")
			if err != nil {
				return err
			}
			if n := strings.Count(out, " true "); n != len(s.machines) {
				return errors.New(out)
			}
			_, err = m.run(ctx, fmt.Sprintf(`bash -c 'exec 3<>/dev/tcp/127.0.0.1/2381
				printf "GET /metrics HTTP/1.0\r\n\r\n" >&3; grep "etcd_server_version.*\"%s\"" <&3'`, s.version))
			return err
		})
	}
}

// etcdadm makes an etcd of static pods, which kubeadm uses as external etcd for three control
// planes: certificates are renewed, a machine is lost and replaced, etcd changes to the next minor
// version, a snapshot is restored, and a machine leaves.
func TestByHandStaticPods(t *testing.T) {
	long(t)
	s := &byHand{version: oldEtcd}
	s.programs, s.archive = build(t, t.TempDir(), "etcd:"+oldEtcd, "etcd:"+newEtcd)
	s.Cluster = newCluster(t, "etcdadm-by-hand", 3, nil, []v1alpha4.Mount{
		{HostPath: etcd(t, newEtcd), ContainerPath: "/opt/etcd-v" + newEtcd, Readonly: true},
	})
	s.found(t)
	w := s.api(t).write(t)
	d := w.api.deploy(t, s.machines[0].must(t, "ctr -n k8s.io images ls -q | grep -m1 /pause:"), 3)
	w.more(t, 100)
	s.certificatesAreRenewed(t, w)
	d.scale(t, 4)
	s.machineIsReplaced(t, w)
	d.scale(t, 2)
	s.versionIsChanged(t, w)
	w.check(t, 0, 0)
	d.scale(t, 3)
	s.snapshotIsRestored(t, w)
	d.scale(t, 4)
	s.machineLeaves(t, w)
	d.scale(t, 1)
}

// machineIsReplaced deletes a machine with its disk, and makes another one of its name. The API servers
// that stay fail no write, but those that the machine's member had: from them, or as the leader.
func (s *byHand) machineIsReplaced(t *testing.T, w *Writer) {
	lost := s.machines[2]
	staying := started(t, s.others(lost))
	w.ends(lost)
	failed := w.during(t, "a machine is replaced", func() {
		lost.replace(t)
		s.etcdadm(t, s.machines[0], "remove "+string(lost))
		if err := w.api.do(t.Context(), "DELETE", "/api/v1/nodes/"+string(lost), nil, nil); err != nil {
			t.Fatal(err)
		}
		s.equip(t, lost)
		s.member(t, lost)
		s.configure(t, lost)
		lost.join(t, s.machines[0])
		s.healthy(t)
	})
	w.ends("")
	serving(t, failed, failure.cutOff, failure.withTheLeader, failure.withAMember)
	stayed(t, staying)
	w.check(t, 0, 0)
}

// versionIsChanged takes the members to the next minor version, by the lines that etcdadm prints,
// each on its machine.
func (s *byHand) versionIsChanged(t *testing.T, w *Writer) {
	s.version = newEtcd
	w.during(t, "etcd is upgraded from "+oldEtcd+" to "+newEtcd, func() {
		lines := s.planned(t)
		if len(lines) < len(s.machines) {
			t.Fatalf("the plan has %d lines", len(lines))
		}
		for _, l := range lines {
			m := machine(l.On)
			if !slices.Contains(s.machines, m) {
				t.Fatalf("%q is for %s", l.Line, m)
			}
			t.Logf("on %s: %s", m, l.Line)
			m.must(t, hand+l.Line+" 2>&1")
		}
		if more := s.planned(t); len(more) > 0 {
			t.Errorf("there is more to do: %v", more)
		}
		s.healthy(t)
	})
}

// A plannedLine is a line of etcdadm upgrade plan, and the member that it is for.
type plannedLine struct{ On, Line string }

// planned returns the plan to the version of the scenario.
func (s *byHand) planned(t *testing.T) []plannedLine {
	t.Helper()
	var plan struct{ Steps []plannedLine }
	out := s.machines[0].must(t, hand+"etcdadm upgrade plan -o json --to="+s.version)
	if err := json.Unmarshal([]byte(out), &plan); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return plan.Steps
}

// snapshotIsRestored takes etcd back to a snapshot, as after the loss of all members.
func (s *byHand) snapshotIsRestored(t *testing.T, w *Writer) {
	first := s.machines[0]
	before := w.count()
	s.etcdadm(t, first, "snapshot save /root/etcd.db")
	after := w.count()
	w.more(t, 100)
	w.during(t, "a snapshot is restored", func() {
		for _, m := range s.machines {
			s.etcdadm(t, m, "reset --skip-remove-member")
		}
		for _, phase := range []string{"install", "certificates", "configure"} {
			s.etcdadm(t, first, "init phase "+phase+" --version="+newEtcd)
		}
		// The machine has no binaries of etcd but those that are brought here.
		s.etcdadm(t, first, "snapshot restore /root/etcd.db --bump-revision=1000000000 --mark-compacted "+
			"--version="+newEtcd+" --etcd-dir=/opt --initial-advertise-peer-urls=https://"+first.address(t)+":2380")
		for _, m := range s.machines {
			s.member(t, m)
		}
		s.healthy(t)
	})
	if n := w.at(after + 50); has(w.present(t), n) {
		t.Errorf("the write %d is there, which is younger than the snapshot", n)
	}
	w.check(t, w.at(before), w.at(w.count()-20))
}

// machineLeaves takes a machine out of the cluster of etcd.
func (s *byHand) machineLeaves(t *testing.T, w *Writer) {
	last := s.machines[2]
	w.during(t, "a member leaves", func() {
		s.etcdadm(t, last, "reset")
		s.machines = s.machines[:2]
		s.healthy(t)
	})
	if out := s.etcdadm(t, s.machines[0], "status"); strings.Contains(out, fmt.Sprint(last, " ")) {
		t.Errorf("%s is a member still:\n%s", last, out)
	}
}
