//go:build e2e

package kind

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// collect saves what is needed to find out why a scenario failed, an archive for each machine, and
// says where. ARTIFACTS names another directory than a temporary one.
func (c *Cluster) collect(t *testing.T) {
	t.Helper()
	dir := os.Getenv("ARTIFACTS")
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "etcdadm-kind-"); err != nil {
			t.Error(err)
			return
		}
	}
	const script = `mkdir -p /tmp/logs; journalctl --no-pager >/tmp/logs/journal 2>&1
		ctr -n k8s.io containers ls >/tmp/logs/containers 2>&1; cp -r /etc/kubernetes/manifests /tmp/logs
		cp -rL /var/log/pods /tmp/logs; cp /var/log/etcd*.log /tmp/logs; tar -czf - -C /tmp logs`
	for _, m := range c.machines {
		// The test's context has ended; what is missing does not keep the rest back.
		out, err := command(context.WithoutCancel(t.Context()), nil, "docker", "exec", string(m), "sh", "-c", script)
		if err != nil && out == "" {
			t.Log(err)
			continue
		}
		file := filepath.Join(dir, string(m)+".tar.gz")
		if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
			t.Log(err)
			continue
		}
		t.Logf("logs of %s: %s", m, file)
	}
}
