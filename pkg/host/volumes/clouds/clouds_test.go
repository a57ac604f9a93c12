package clouds

import (
	"testing"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
)

func TestCloudsAreLinked(t *testing.T) {
	for _, name := range []string{"aws", "azure", "do", "gce", "hetzner", "linode", "openstack", "scaleway"} {
		if volumes.Lookup(name) == nil {
			t.Errorf("--volume-provider=%s is not there", name)
		}
	}
}
