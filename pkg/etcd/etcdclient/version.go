package etcdclient

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// Versions are the versions that a member reports at its URLs, to everybody.
type Versions struct {
	Server  etcdversion.Version `json:"etcdserver"`
	Cluster etcdversion.Version `json:"etcdcluster"`
	// Storage is reported from etcd 3.6 on.
	Storage etcdversion.Version `json:"storage"`
}

// Versions asks a member at a peer URL for its versions. It answers there as soon
// as it has read its disk.
func (p *Peer) Versions(ctx context.Context, peerURL string) (Versions, error) {
	b, err := p.get(ctx, peerURL, "/version", nil)
	if err != nil {
		return Versions{}, err
	}
	return parseVersions(peerURL, b)
}

// parseVersions reads an answer. A cluster version that is not decided yet is reported
// as "not_decided", and stays unknown.
func parseVersions(url string, b []byte) (Versions, error) {
	var raw struct{ Etcdserver, Etcdcluster, Storage string }
	if err := json.Unmarshal(b, &raw); err != nil {
		return Versions{}, fmt.Errorf("versions reported by %s: %w", url, err)
	}
	var v Versions
	v.Server, _ = etcdversion.Parse(raw.Etcdserver)
	v.Cluster, _ = etcdversion.Parse(raw.Etcdcluster)
	v.Storage, _ = etcdversion.Parse(raw.Storage)
	return v, nil
}

// clusterVersion asks the member at a client URL for the cluster version that it
// knows, zero where it does not report.
func clusterVersion(ctx context.Context, c *http.Client, url string) etcdversion.Version {
	v, err := (&Peer{c}).Versions(ctx, url) // the answer is the same as at a peer URL
	if err != nil {
		return etcdversion.Version{}
	}
	return v.Cluster
}

// versionClient returns what clusterVersion asks with.
func versionClient(t *tls.Config) *http.Client {
	if t != nil {
		t = t.Clone()
		t.NextProtos = nil
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: t, MaxIdleConnsPerHost: 1}}
}
