package standin

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/pkg/testing/existing"
)

// create makes a new cluster of those that are there, and sets aside what they have.
func (c *controller) create(ctx context.Context, v *view, spec existing.Spec) error {
	names := v.leader.Acknowledged
	if !enough(len(names), spec.Count) {
		return fmt.Errorf("%d daemons are too few for a cluster of %d", len(names), spec.Count)
	}
	for _, name := range v.configured() {
		if err := v.leader.StopEtcd(ctx, name); err != nil {
			return err
		}
	}
	names = names[:min(len(names), spec.Count)]
	var b [16]byte
	_, _ = rand.Read(b[:])
	j := existing.Join{Token: base64.RawURLEncoding.EncodeToString(b[:]), Version: spec.Version}
	for _, name := range names {
		j.Nodes = append(j.Nodes, c.proposed(v.infos[name]))
	}
	log.Printf("a new cluster %s of %v", j.Token, names)
	if err := c.broadcast(ctx, v, v.leader.Acknowledged, names); err != nil {
		return err
	}
	for _, phase := range []byte{existing.Prepare, existing.InitialCluster} {
		j.Phase = phase
		for _, name := range names {
			if err := v.leader.Join(ctx, name, j); err != nil {
				return err
			}
		}
	}
	return c.writeSpec(spec)
}

// proposed is the node of a machine as a member: with TLS, unless its leader has none.
func (c *controller) proposed(i existing.Info) existing.Node {
	if c.m.o.insecure {
		return i.Node
	}
	return withTLS(i.Node)
}

// enough says whether a cluster is made of those that are there: of all, or of one less
// where that has the same quorum.
func enough(there, count int) bool {
	return there >= count || there >= quorum(count) && quorum(there) == quorum(count)
}

func (c *controller) writeSpec(spec existing.Spec) error {
	b, err := json.MarshalIndent(map[string]any{"memberCount": spec.Count, "etcdVersion": spec.Version}, "", "  ")
	if err != nil {
		return err
	}
	return write(filepath.Join(c.m.o.store, "control", "etcd-cluster-spec"), b)
}

// membership does the first thing that is to be done to the members.
func (c *controller) membership(ctx context.Context, v *view) error {
	acked, configured := len(v.leader.Acknowledged), v.configured()
	closed, enough := v.quarantined(), min(acked, v.well()) >= quorum(c.spec.Count)
	if closed > 0 && (enough || closed < len(configured)) {
		for _, name := range configured {
			if err := v.leader.Reconfigure(ctx, name, "", !enough, false); err != nil {
				return err
			}
		}
		return nil
	}
	switch {
	case len(v.members) == 0:
		return errors.Join(c.refresh(), errors.New("etcd has 0 members registered"))
	case len(v.members) < c.spec.Count && acked >= quorum(len(v.members)):
		return c.add(ctx, v)
	case len(configured) > c.spec.Count && acked >= quorum(len(configured)):
		return c.remove(ctx, v)
	case len(v.members) == c.spec.Count:
		if done, err := c.replace(ctx, v); done || err != nil {
			return err
		}
	}
	if c.m.o.insecure {
		return nil
	}
	return c.reconcileTLS(ctx, v)
}

// quarantined returns how many members are closed to clients.
func (v *view) quarantined() (n int) {
	for _, name := range v.configured() {
		if v.infos[name].State.Quarantined {
			n++
		}
	}
	return n
}

// reconcileTLS has the peer URLs on record follow the flags of their machine, with TLS, one
// member in a round. A member whose machine says that it has none is started again with it.
func (c *controller) reconcileTLS(ctx context.Context, v *view) error {
	for _, m := range v.members {
		i, there := v.infos[m.Name]
		if !there {
			continue
		}
		if want := secure(i.Node.Peer); !slices.Equal(m.PeerURLs, want) {
			log.Printf("the peer URLs of %s are %v", m.Name, want)
			return c.with(ctx, urlsOf(i), func(ctx context.Context, client *clientv3.Client) error {
				_, err := client.MemberUpdate(ctx, m.ID, want)
				return err
			})
		}
		if n, ok := i.State.Node(m.Name); ok && !n.TLS {
			log.Printf("%s is to use TLS", m.Name)
			return v.leader.Reconfigure(ctx, m.Name, "", false, true)
		}
	}
	return nil
}

// add adds a voter on a machine without one.
func (c *controller) add(ctx context.Context, v *view) error {
	configured := v.configured()
	if v.well() < quorum(len(v.members)) || len(configured) == 0 {
		return errors.New("too few members are healthy to add one")
	}
	for name, i := range v.infos {
		if i.State.Token != "" {
			continue
		}
		if err := c.forced(ctx, v); err != nil {
			return err
		}
		from := v.infos[configured[0]].State
		j := existing.Join{Phase: existing.Prepare, Token: from.Token, Version: from.Version}
		for _, m := range v.members {
			n := existing.Node{Name: m.Name, Peer: m.PeerURLs, Client: m.ClientURLs, TLS: !c.m.o.insecure}
			j.Nodes = append(j.Nodes, n)
		}
		n := c.proposed(i)
		j.Nodes = append(j.Nodes, n)
		if err := v.leader.Join(ctx, name, j); err != nil {
			return err
		}
		log.Printf("add %s", name)
		if err := c.change(ctx, v, func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.MemberAdd(ctx, n.Peer)
			if errors.Is(err, rpctypes.ErrMemberExist) || errors.Is(err, rpctypes.ErrPeerURLExist) {
				err = nil
			}
			return err
		}); err != nil {
			j.Phase = existing.CancelPrepare
			return errors.Join(err, v.leader.Join(ctx, name, j))
		}
		j.Phase = existing.JoinExisting
		return v.leader.Join(ctx, name, j)
	}
	return errors.New("no machine is free")
}

// change changes the members through those that are well.
func (c *controller) change(ctx context.Context, v *view, do func(context.Context, *clientv3.Client) error) error {
	var urls []string
	for _, name := range v.configured() {
		if v.healthy[name] {
			urls = append(urls, urlsOf(v.infos[name])...)
		}
	}
	return c.with(ctx, urls, do)
}

// remove removes a member, first one that is not healthy. Its machine is not notified.
func (c *controller) remove(ctx context.Context, v *view) error {
	if err := c.forced(ctx, v); err != nil {
		return err
	}
	chosen := v.members[len(v.members)-1]
	for _, m := range v.members {
		if !v.healthy[m.Name] {
			chosen = m
		}
	}
	return c.drop(ctx, v, chosen)
}

func (c *controller) drop(ctx context.Context, v *view, m *clientv3.Member) error {
	log.Printf("remove %s", m.Name)
	return c.change(ctx, v, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.MemberRemove(ctx, m.ID)
		return err
	})
}

// replace removes the member of the one machine whose disk is empty, once it has not been
// healthy for a minute; it is added again then.
func (c *controller) replace(ctx context.Context, v *view) (bool, error) {
	var empty []string
	for name, i := range v.infos {
		if i.DiskEmpty {
			empty = append(empty, name)
		}
	}
	if len(empty) != 1 || c.spec.Count < 3 || v.quarantined() > 0 || v.well() < quorum(len(v.members)) {
		return false, nil
	}
	for _, m := range v.members {
		gone := time.Since(c.healthyAt[m.ID]) > 6*c.every
		if m.Name != empty[0] || v.healthy[m.Name] || !gone {
			continue
		}
		if err := c.forced(ctx, v); err != nil {
			return false, err
		}
		return true, c.drop(ctx, v, m)
	}
	return false, nil
}
