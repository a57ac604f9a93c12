//go:build e2e

package kind

import (
	"context"
	"testing"
	"time"
)

// apiOff ends the API server of a machine, and waits until nothing listens there.
func (m machine) apiOff(t *testing.T) {
	t.Helper()
	m.must(t, "mv /etc/kubernetes/manifests/kube-apiserver.yaml /root/")
	await(t, "the API server of "+string(m)+" is off", 2*time.Minute, func(ctx context.Context) error {
		_, err := m.run(ctx, "! bash -c '</dev/tcp/"+m.address(t)+"/6443' 2>/dev/null")
		return err
	})
}

// apiOn starts the API server of a machine again, and waits until it is ready.
func (m machine) apiOn(t *testing.T) {
	t.Helper()
	m.must(t, "mv /root/kube-apiserver.yaml /etc/kubernetes/manifests/")
	m.ready(t)
}

// ready waits for the API server of a machine.
func (m machine) ready(t *testing.T) {
	t.Helper()
	await(t, "the API server of "+string(m), 3*time.Minute, func(ctx context.Context) error {
		_, err := m.run(ctx, "kubectl --kubeconfig=/etc/kubernetes/admin.conf --server=https://"+m.address(t)+
			":6443 get --raw=/readyz")
		return err
	})
}
