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
	for provider := range volumestest.KopsLines {
		if provider == "aws" {
			continue
		}
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			c := harness.New(t.Context(), t, podOptions(t))
			b := c.Net.Free()
			m, cloud := harness.CloudMachine(c, provider, v36, b)
			c.SetSpec(1, v36)
			args := harness.CloudArgs(c, provider)
			m.Pod(args...)
			c.WaitNames(harness.Soon, m.Name)
			kopsLine{etcd: harness.KopsMain}.urls(t, c, m)
			hostsHave(t, c, m.Hosts(), nil, m.Address+"\t"+m.Name+"."+harness.KopsDomain,
				b+"\t"+cloud.Neighbour()+"."+harness.KopsDomain)
			w := c.Write()
			w.WaitMore(harness.Soon, 5)
			m.Kill()
			m.Pod(args...)
			w.WaitMore(harness.Soon, 5)
			c.WaitNames(harness.Soon, m.Name)
			if attached := cloud.DisksOf(cloud.Self.ID); len(attached) != 1 {
				t.Errorf("the disks %v are attached", attached)
			}
		})
	}
}
