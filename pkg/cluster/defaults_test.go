package cluster

import (
	"fmt"
	"strings"
	"testing"
)

func TestDefaultURLsHaveEtcdsPorts(t *testing.T) {
	for url, port := range map[string]int{AutoClientURL: EtcdClientPort, DaemonPeerURL: EtcdPeerPort} {
		if !strings.HasSuffix(url, fmt.Sprint(":", port)) {
			t.Errorf("%s has not the port %d", url, port)
		}
	}
}
