//go:build e2e

package e2e

import (
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
)

// The whole daemon with kops' line for each cloud but Amazon's, in its pod: it asks for the
// cloud by its own name, trusted by what the machine has in /etc/ssl/certs, attaches its volume
// and no other, makes a file system, bootstraps, and etcd serves at the URLs of kops. The next
// container finds the volume where it is. Amazon's is in TestKopsPod and TestKopsCommandLines.
func TestKopsPodOfEachCloud(t *testing.T) {
	t.Parallel()
	lines := map[string]kopsLine{
		"gce, API servers elsewhere": {
			name: "gce", etcd: harness.KopsMain, host: "main.etcd." + harness.KopsDomain,
			flags: []string{"--client-urls=https://main.etcd." + harness.KopsDomain + ":4001"},
		},
		"gce, cilium": {
			name: "gce", etcd: harness.KopsCilium, host: "api." + harness.KopsDomain,
			flags: []string{"--client-urls=https://api." + harness.KopsDomain + ":4003"},
		},
	}
	for provider := range volumestest.KopsLines {
		if provider != "aws" {
			lines[provider] = kopsLine{name: provider, etcd: harness.KopsMain}
		}
	}
	for name, line := range lines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line.inCloud(t)
		})
	}
}

// inCloud runs the line in the pod of a machine of the cloud with its name.
func (l kopsLine) inCloud(t *testing.T) {
	t.Helper()
	c := harness.New(t.Context(), t, podOptions(t))
	b := c.Net.Free()
	m, cloud := l.etcd.CloudMachine(c, l.name, v36, b)
	if l.host != "" {
		m.Host = l.host
	}
	c.SetSpec(1, v36)
	args := l.etcd.CloudArgs(c, l.name, l.flags...)
	m.Pod(args...)
	c.WaitNames(harness.Soon, m.Name)
	l.urls(t, c, m)
	hostsHave(t, c, m.Hosts(), nil, m.Address+"\t"+m.Name+"."+harness.KopsDomain,
		b+"\t"+cloud.Neighbour()+"."+harness.KopsDomain)
	w := c.Write()
	w.WaitMore(harness.Soon, 5)
	m.Kill()
	gone(t, c, m)
	m.Pod(args...)
	w.WaitMore(harness.Soon, 5)
	c.WaitNames(harness.Soon, m.Name)
	if attached := cloud.DisksOf(cloud.Self.ID); len(attached) != 1 {
		t.Errorf("the disks %v are attached", attached)
	}
}
