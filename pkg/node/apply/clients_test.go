package apply

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
)

// endsClientsOf checks at which port the clients are cut off when the member ends.
func (h *host) endsClientsOf(port uint16) {
	h.t.Helper()
	cfg, err := h.command(h.state.State(), etcdconf.StateExisting)
	if err != nil {
		h.t.Fatal(err)
	}
	if !slices.Equal(cfg.ClientPorts, []uint16{port}) {
		h.t.Errorf("clients of the ports %v are cut off, want %d", cfg.ClientPorts, port)
	}
	if peers := etcdconf.PeerPorts(cfg.Env); len(peers) == 0 || !slices.Equal(cfg.PeerPorts, peers) {
		h.t.Errorf("peers of the ports %v are cut off, want %v", cfg.PeerPorts, peers)
	}
}
