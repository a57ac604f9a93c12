package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// NewClient returns a client of the members on these nodes. The caller closes
// it.
func (c *Cluster) NewClient(nodes ...*Node) (*clientv3.Client, error) {
	cfg := clientv3.Config{DialTimeout: askTime, Logger: zap.NewNop(), DialKeepAliveTime: time.Second,
		DialKeepAliveTimeout: time.Second}
	for _, n := range nodes {
		cfg.Endpoints = append(cfg.Endpoints, n.ClientURL())
	}
	if c.PKI != nil {
		cfg.TLS = c.PKI.ClientTLS()
		creds := etcdclient.Credentials(cfg.TLS, func(host string) bool {
			return slices.Contains(c.endpoints(), "http://"+host)
		})
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithTransportCredentials(creds))
	}
	if c.Net != nil {
		cfg.DialOptions = append(cfg.DialOptions,
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				return c.dial(ctx, strings.TrimPrefix(strings.TrimPrefix(addr, "https://"), "http://"))
			}))
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	return client, nil
}

// dial connects to a node from within its own network namespace, so that it
// answers whatever its network is like.
func (c *Cluster) dial(ctx context.Context, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	for _, n := range c.Nodes() {
		if space, address := n.where(); address == host || n.Host == host {
			return space.dial(ctx, net.JoinHostPort(address, port))
		}
	}
	return nil, fmt.Errorf("no node has the address %s", host)
}

// where returns the node's network and its address, which a machine that takes its place
// changes while others ask.
func (n *Node) where() (*space, string) {
	n.place.Lock()
	defer n.place.Unlock()
	return n.space, n.Address
}

// DataDir returns the data directory for who is in no container.
func (n *Node) DataDir() string {
	if n.dataDir != nil {
		return n.dataDir()
	}
	return n.Dir
}

// Client returns the node's client, which lives as long as the cluster.
func (n *Node) Client() (*clientv3.Client, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.client == nil {
		client, err := n.c.NewClient(n)
		if err != nil {
			return nil, err
		}
		n.client = client
	}
	return n.client, nil
}

// ServeAt has clients of the cluster ask the member, which does not run, at another port.
func (n *Node) ServeAt(port int32) {
	n.Port.Store(port)
	n.closeClient()
}

func (n *Node) closeClient() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.client != nil {
		_ = n.client.Close()
		n.client = nil
	}
}

// EtcdStatus asks the node's member for its status.
func (n *Node) EtcdStatus(ctx context.Context) (*clientv3.StatusResponse, error) {
	client, err := n.Client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return client.Status(ctx, n.ClientURL())
}

// Members asks any of the nodes' members for the member list that the majority
// agrees on.
func (c *Cluster) Members(ctx context.Context) ([]*clientv3.Member, error) {
	last := errors.New("no daemon runs")
	for _, n := range c.Nodes() {
		if !n.Running() {
			continue
		}
		client, err := n.Client()
		if err != nil {
			return nil, err
		}
		ask, cancel := context.WithTimeout(ctx, askTime)
		r, err := client.MemberList(ask)
		cancel()
		if err == nil {
			var members []*clientv3.Member
			for _, m := range r.Members {
				members = append(members, (*clientv3.Member)(m))
			}
			return members, nil
		}
		last = fmt.Errorf("member list from %s: %w", n.Name, err)
	}
	return nil, last
}

// Voters returns the names of the voters, sorted; the error says what is not
// well: a learner, a member without a name, one that does not answer or sees
// no leader.
func (c *Cluster) Voters(ctx context.Context) ([]string, error) {
	members, err := c.Members(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range members {
		if m.IsLearner || m.Name == "" {
			return nil, fmt.Errorf("member %x %q: learner is %t", m.ID, m.Name, m.IsLearner)
		}
		s, err := c.Node(m.Name).EtcdStatus(ctx)
		if err != nil {
			return nil, fmt.Errorf("member %s does not answer: %w", m.Name, err)
		}
		if s.Leader == 0 || s.Header.MemberId != m.ID {
			return nil, fmt.Errorf("member %s: id %x, leader %x; the list says id %x", m.Name, s.Header.MemberId, s.Leader, m.ID)
		}
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names, nil
}

// WaitVoters waits until exactly that many voters, and no learner, are well.
func (c *Cluster) WaitVoters(within time.Duration, count int) {
	c.t.Helper()
	c.Eventually(within, fmt.Sprintf("a cluster of %d", count), func(ctx context.Context) error {
		names, err := c.Voters(ctx)
		if err == nil && len(names) != count {
			err = fmt.Errorf("the voters are %v", names)
		}
		return err
	})
}

// WaitNames waits until exactly these voters, and no learner, are well.
func (c *Cluster) WaitNames(within time.Duration, want ...string) {
	c.t.Helper()
	slices.Sort(want)
	c.Eventually(within, fmt.Sprintf("a cluster of %v", want), func(ctx context.Context) error {
		names, err := c.Voters(ctx)
		if err == nil && !slices.Equal(names, want) {
			err = fmt.Errorf("the voters are %v", names)
		}
		return err
	})
}

// Program runs one of the programs to its end and returns what it wrote to
// stdout; the error has what it wrote to stderr.
func (c *Cluster) Program(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(c.ctx, Soon)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.Bin, name), args...)
	cmd.Env = append(os.Environ(), "ETCDADM_ETCD_DIR="+c.EtcdDirs)
	cmd.WaitDelay = time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), err
}

// Ctl runs etcd-manager-ctl.
func (c *Cluster) Ctl(args ...string) (string, error) {
	return c.Program("etcd-manager-ctl", append([]string{"--backup-store=" + c.StoreURL()}, args...)...)
}

// SetSpec writes the spec as an operator does.
func (c *Cluster) SetSpec(count int, version string) {
	c.t.Helper()
	_, err := c.Ctl("-member-count="+strconv.Itoa(count), "-etcd-version="+version, "configure-cluster")
	c.must(err, "write the spec")
}

// Status returns what the coordinator published last.
func (c *Cluster) Status() (reconcile.Report, error) {
	var r reconcile.Report
	b, err := os.ReadFile(filepath.Join(c.Store, "control", "status"))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	return r, err
}

// WaitHold waits until the published status has a hold for a reason.
func (c *Cluster) WaitHold(within time.Duration, reason string) string {
	c.t.Helper()
	var text string
	c.Eventually(within, "hold "+reason, func(context.Context) error {
		r, err := c.Status()
		if err != nil {
			return err
		}
		for _, h := range r.Holds {
			if string(h.Reason) == reason {
				text = h.Text
				return nil
			}
		}
		return fmt.Errorf("the holds are %v", r.Holds)
	})
	return text
}

// Coordinator returns the node that coordinates, once it is known.
func (c *Cluster) Coordinator() *Node {
	c.t.Helper()
	var name string
	c.Eventually(Soon, "a coordinator", func(context.Context) error {
		r, err := c.Status()
		if err == nil && (r.Coordinator == "" || r.Term == 0) {
			err = fmt.Errorf("coordinator %q, term %d", r.Coordinator, r.Term)
		}
		name = string(r.Coordinator)
		return err
	})
	return c.Node(name)
}

// History returns what the coordinators did, oldest first.
func (c *Cluster) History() ([]store.HistoryEntry, error) {
	b, err := os.ReadFile(filepath.Join(c.Store, "control", "history"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []store.HistoryEntry
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	return all, err
}
