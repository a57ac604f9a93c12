package etcdclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A Peer asks members what etcd's members ask each other, at their peer URLs.
// A member answers there as soon as it has read its disk, before it has found a
// leader and before it serves any client.
type Peer struct{ http *http.Client }

// OpenPeer returns a Peer that shows the certificate in t, which is that of a
// member; nil is for members that speak plain text.
func OpenPeer(t *tls.Config) *Peer {
	return &Peer{&http.Client{Transport: &http.Transport{TLSClientConfig: t}}}
}

// Close ends the connections.
func (p *Peer) Close() { p.http.CloseIdleConnections() }

// Version returns the version of the member at a peer URL. An error is why the
// member does not serve its peers: one that compares its data with theirs takes
// connections and does not.
func (p *Peer) Version(ctx context.Context, peerURL string) (etcdversion.Version, error) {
	v, err := p.Versions(ctx, peerURL)
	if err == nil && v.Server.IsZero() {
		err = fmt.Errorf("%s does not say which version it is", peerURL)
	}
	return v.Server, err
}

// Members returns the member list as the member at a peer URL has it on its disk.
func (p *Peer) Members(ctx context.Context, peerURL string) ([]cluster.Member, error) {
	b, err := p.get(ctx, peerURL, "/members", nil)
	if err != nil {
		return nil, err
	}
	var list []struct {
		ID         uint64   `json:"id"`
		Name       string   `json:"name"`
		PeerURLs   []string `json:"peerURLs"`
		ClientURLs []string `json:"clientURLs"`
		Learner    bool     `json:"isLearner"`
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("members reported by %s: %w", peerURL, err)
	}
	members := make([]cluster.Member, 0, len(list))
	for _, m := range list {
		members = append(members, cluster.Member{
			ID: cluster.MemberID(m.ID), Name: cluster.NodeName(m.Name), PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs,
			Learner: m.Learner,
		})
	}
	return members, nil
}

// HashKV returns the digest of the keys of the member at a peer URL, as of a
// revision, or of the present one for zero. It reads the whole database, and
// the member commits nothing to it meanwhile, except where revision is that of a
// compaction that the member has carried out lately: that digest is kept (from
// etcd 3.5.5 on). What [Client.HashKV] says of etcd 3.4 is so here, too.
func (p *Peer) HashKV(ctx context.Context, peerURL string, revision cluster.Revision) (cluster.Digest, error) {
	d, err := p.hashKV(ctx, peerURL, revision)
	if revision == 0 || err == nil || !strings.Contains(err.Error(), mvccCompacted) {
		return d, err
	}
	now, nowErr := p.hashKV(ctx, peerURL, 0)
	if nowErr == nil && now.Revision == revision && now.CompactRevision == revision {
		return now, nil
	}
	return d, err
}

// mvccCompacted is how a member says over HTTP that a revision is compacted.
const mvccCompacted = "mvcc: required revision has been compacted"

func (p *Peer) hashKV(ctx context.Context, peerURL string, revision cluster.Revision) (cluster.Digest, error) {
	ask, err := json.Marshal(map[string]int64{"revision": int64(revision)})
	if err != nil {
		return cluster.Digest{}, err
	}
	b, err := p.get(ctx, peerURL, "/members/hashkv", ask)
	if err != nil {
		return cluster.Digest{}, err
	}
	var r struct {
		Header struct {
			Revision cluster.Revision `json:"revision"`
		} `json:"header"`
		Hash    uint32           `json:"hash"`
		Compact cluster.Revision `json:"compact_revision"`
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return cluster.Digest{}, fmt.Errorf("digest reported by %s: %w", peerURL, err)
	}
	d := cluster.Digest{Hash: r.Hash, Revision: revision, CompactRevision: r.Compact}
	if revision == 0 {
		d.Revision = r.Header.Revision
	}
	return d, nil
}

// maxPeerAnswer bounds what a member is listened to, in bytes.
const maxPeerAnswer = 1 << 20

func (p *Peer) get(ctx context.Context, peerURL, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(peerURL, "/")+path,
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxPeerAnswer))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, fmt.Errorf("%s%s: %w", peerURL, path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s%s: %s: %s", peerURL, path, resp.Status, bytes.TrimSpace(b[:min(len(b), 200)]))
	}
	return b, nil
}
