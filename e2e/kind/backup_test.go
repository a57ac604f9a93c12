//go:build e2e

package kind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A bucket is where backups go: an S3 server, with one bucket.
type bucket struct {
	endpoint    string
	environment []string
}

// bucket starts an S3 server where all machines reach it.
func (s *handed) bucket(t *testing.T) bucket {
	t.Helper()
	dir := t.TempDir()
	// As the tests of the stores build it, so that it is in the cache.
	if _, err := command(t.Context(), nil, "env", "-C", root+"/e2e/stores/servers/modules/s3", "GOWORK=off", "GOFLAGS=",
		"CGO_ENABLED=0", "go", "build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", dir+"/",
		"tool"); err != nil {
		t.Fatal(err)
	}
	gateway, err := docker(t.Context(), "network", "inspect", "--format={{(index .IPAM.Config 0).Gateway}}", "kind")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(gateway, "0"))
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := errors.Join(l.Close(), os.MkdirAll(dir+"/buckets/backups", 0o755)); err != nil {
		t.Fatal(err)
	}
	b := bucket{endpoint: "http://" + address}
	b.environment = []string{
		"S3_ENDPOINT=" + b.endpoint, "S3_ACCESS_KEY_ID=owner", "S3_SECRET_ACCESS_KEY=secret-of-the-owner",
	}
	cmd := exec.Command(dir+"/versitygw", "--port", address, "--access", "owner", "--secret", "secret-of-the-owner",
		"--region", "us-east-1", "--quiet", "--health", "/health", "posix", dir+"/buckets")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	await(t, "the S3 server", time.Minute, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.endpoint+"/health", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
	return b
}

// backups returns the names of the backups at a place in the bucket, the oldest first.
func (s *handed) backups(ctx context.Context, b bucket, place string) ([]string, error) {
	out, err := command(ctx, nil, "env", append(slices.Clone(b.environment), filepath.Join(s.programs, "etcd-manager-ctl"),
		"list-backups", "--backup-store=s3://backups/"+place)...)
	var names []string
	for word := range strings.FieldsSeq(out) {
		if strings.HasPrefix(word, "20") {
			names = append(names, word)
		}
	}
	return names, err
}

// fresh waits for a backup that is younger than all that are there, and returns its name.
func (s *handed) fresh(t *testing.T, b bucket, place string) (name string) {
	t.Helper()
	old, err := s.backups(t.Context(), b, place)
	if err != nil {
		old = nil // there is no store yet
	}
	await(t, "a backup in "+place, 3*time.Minute, func(ctx context.Context) error {
		names, err := s.backups(ctx, b, place)
		if err != nil {
			return err
		}
		if len(names) <= len(old) {
			return fmt.Errorf("there are %v", names)
		}
		name = names[len(names)-1]
		return nil
	})
	return name
}

// agent renders etcd-backup for kubeadm's etcd.
func (s *handed) agent(t *testing.T, m machine, b bucket, place, flags string) string {
	t.Helper()
	return m.must(t, "etcdadm render etcd-backup --image=docker.io/etcdadm/etcd-backup:"+version+" "+flags+
		" --cluster-name=main --backup-store=s3://backups/"+place+" --verify --client-url=https://127.0.0.1:2379"+
		" --client-ca-file="+stackedPKI+"ca.crt --client-cert-file="+stackedPKI+"healthcheck-client.crt"+
		" --client-key-file="+stackedPKI+"healthcheck-client.key")
}

// cronJob has the cluster itself back its etcd up, every minute.
func (s *handed) cronJob(t *testing.T, b bucket) {
	t.Helper()
	first := s.machines[0]
	for _, m := range s.machines {
		// A node is ready when it has a network for pods. This one has none for them to use, and the
		// pods of the CronJob use the machine's.
		m.put(t, map[string][]byte{"/etc/cni/net.d/10-none.conflist": []byte(
			`{"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "none"}]}`)})
	}
	literals := " --from-literal=" + strings.Join(b.environment, " --from-literal=")
	first.put(t, map[string][]byte{"/root/cronjob.yaml": []byte(s.agent(t, first, b, "cron",
		"--as=cron-job --schedule='* * * * *' --secret=etcd-backup-store -- --once"))})
	first.must(t, "export KUBECONFIG=/etc/kubernetes/admin.conf; "+
		"kubectl --namespace=kube-system create secret generic etcd-backup-store"+literals+"; "+
		"kubectl apply -f /root/cronjob.yaml")
}

// kubeadm's own etcd is backed up into a bucket by static pods and by a CronJob. All members are
// lost, and come back from the newest backup.
func TestStackedBackup(t *testing.T) {
	long(t)
	s := newHanded(t, "etcdadm-backup", stackedPatches, "etcd-backup")
	s.stacked(t)
	w := s.api(t).write(t)
	w.more(t, 100)
	b := s.bucket(t)
	env := "--env=" + strings.Join(b.environment, " --env=")
	for _, m := range s.machines {
		m.put(t, map[string][]byte{"/etc/kubernetes/manifests/etcd-backup.yaml": []byte(
			s.agent(t, m, b, "main", env+" -- --interval=10s"))})
	}
	s.cronJob(t, b)
	s.fresh(t, b, "main")
	t.Logf("the CronJob took %s", s.fresh(t, b, "cron"))
	before := w.count()
	s.fresh(t, b, "main") // it may have been begun before
	name := s.fresh(t, b, "main")
	w.more(t, 20)
	w.during(t, "all members are lost and restored", func() { s.lostAndRestored(t, b, name) })
	w.check(t, w.at(before), w.at(w.count()-20))
	s.fresh(t, b, "main")
}

// lostAndRestored deletes the data of all members, and makes it again from a backup.
func (s *handed) lostAndRestored(t *testing.T, b bucket, name string) {
	t.Helper()
	var members []string
	for _, m := range s.machines {
		m.must(t, "mkdir -p /root/down; cd /etc/kubernetes/manifests; "+
			"mv etcd.yaml etcd-backup.yaml kube-apiserver.yaml /root/down; "+
			"flock --timeout=120 /var/lib/etcd/member/snap/db true; rm -r /var/lib/etcd")
		members = append(members, string(m)+"=https://"+m.address(t)+":2380")
	}
	for _, m := range s.machines {
		t.Log(m.must(t, "export "+strings.Join(b.environment, " ")+"; etcdadm snapshot restore s3://backups/main/"+name+
			" --version="+newEtcd+" --etcd-dir=/opt --name="+string(m)+" --initial-advertise-peer-urls=https://"+m.address(t)+
			":2380 --initial-cluster="+strings.Join(members, ",")+" 2>&1"))
	}
	for _, m := range s.machines {
		m.must(t, "mv /root/down/* /etc/kubernetes/manifests/")
	}
	for _, m := range s.machines {
		s.serves(t, m)
	}
}
