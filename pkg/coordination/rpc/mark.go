package rpc

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// Marked is the protocol (of TLS's ALPN) that a daemon chooses for who offers it and none of its
// own marks. A daemon of before this chooses HTTP/2.
const Marked = "etcdadm-cluster"

// Mark is the protocol by which who has no certificate finds out whether a daemon is of an
// incarnation of a cluster: it offers this mark and [Marked], and the daemon chooses the mark only
// if it is its own. Nothing is said of the cluster to who does not know it.
func Mark(name string, token cluster.Token) string {
	sum := sha256.Sum256([]byte(name + "\x00" + string(token)))
	return Marked + "-" + hex.EncodeToString(sum[:8])
}

// marking returns the configuration of a server that chooses among the protocols of a client by
// its marks, those of the moment. A server without any has none, and chooses as before.
func marking(config *tls.Config, marks func() []string) *tls.Config {
	base := config.Clone()
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		now := config
		if config.GetConfigForClient != nil {
			of, err := config.GetConfigForClient(hello)
			if err != nil {
				return nil, err
			}
			if of != nil {
				now = of
			}
		}
		list := marks()
		if len(list) == 0 {
			return now, nil
		}
		now = now.Clone()
		now.GetConfigForClient, now.NextProtos = nil, append(append(list[:len(list):len(list)], Marked), now.NextProtos...)
		return now, nil
	}
	return base
}
