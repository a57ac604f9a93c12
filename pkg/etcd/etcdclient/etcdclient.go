// Package etcdclient talks to etcd. It offers the calls that operations and
// observations need, those of operations in the narrowest interface ([Membership],
// [Snapshotter]), over the official client.
package etcdclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A Membership reads and changes the member list, through a quorum.
type Membership interface {
	Members(ctx context.Context) ([]cluster.Member, error)
	AddLearner(ctx context.Context, peerURLs []string) (cluster.MemberID, error)
	Promote(ctx context.Context, id cluster.MemberID) error
	Remove(ctx context.Context, id cluster.MemberID) error
	Update(ctx context.Context, id cluster.MemberID, peerURLs []string) error
	MoveLeader(ctx context.Context, to cluster.MemberID) error
}

// A Snapshotter streams a snapshot of a member's database, with etcd's
// trailing SHA-256.
type Snapshotter interface {
	Snapshot(ctx context.Context) (io.ReadCloser, error)
}

// ErrNotReady is returned by Promote while the learner has not caught up.
var ErrNotReady = errors.New("the learner has not caught up with the leader")

// ErrUnhealthy is returned when etcd refuses a membership change because too
// few members are started or connected for long enough (strict reconfig
// check). It clears by itself seconds after a join.
var ErrUnhealthy = errors.New("etcd refuses the change: too few members have been connected for long enough")

// ErrLearnerPending is returned when etcd has as many learners as it takes, which
// is one: another member is joining.
var ErrLearnerPending = errors.New("etcd allows one learner at a time, and there is one")

// A Client is a connection to one member or to several of one cluster.
type Client struct {
	c *clientv3.Client
	// kept asks over the connection of c. Left alone, etcd's client makes a new one, with a TLS
	// handshake, for each question for a status.
	kept      clientv3.Maintenance
	endpoints []string
	versions  *http.Client
}

// Options say whom to talk to.
type Options struct {
	// Endpoints are client URLs.
	Endpoints []string
	// TLS is for those of https. Where it is nil and some are http, only these are called.
	TLS *tls.Config
	// ServerName is the name in the certificates, where that is not the host of an endpoint.
	ServerName string
	// ConnectTimeout is how long one try to connect may take, by default a second.
	ConnectTimeout time.Duration
}

// window is how much of a stream may be under way: 80 MB/s at a round trip of
// 50 ms.
const window = 4 << 20

// Open returns a client. It does not connect yet; the first call does.
func Open(o Options) (*Client, error) {
	if len(o.Endpoints) == 0 {
		return nil, errors.New("no etcd endpoint is known")
	}
	if o.TLS != nil && o.ServerName != "" {
		o.TLS = o.TLS.Clone()
		o.TLS.ServerName = o.ServerName
	}
	endpoints, how := byScheme(o.Endpoints, o.TLS, o.ServerName)
	c, err := clientv3.New(clientv3.Config{
		Endpoints:           endpoints,
		TLS:                 o.TLS,
		Logger:              zap.NewNop(),
		DialKeepAliveTime:   10 * time.Second,
		BackoffWaitBetween:  50 * time.Millisecond,
		PermitWithoutStream: true,
		// A member that does not listen is reported at once; who asks decides whether
		// to ask again.
		MaxUnaryRetries: 2,
		DialOptions: append(how,
			// The proxy in the environment is for the world outside: etcd is on the
			// cluster's own network, and sees who connects by the certificate.
			grpc.WithNoProxy(),
			// Small buffers: a daemon keeps this connection for its whole life and
			// sends a few hundred bytes a second over it.
			grpc.WithReadBufferSize(4<<10), grpc.WithWriteBufferSize(4<<10),
			// What may be under way of a snapshot. Left alone, gRPC lets a fast member
			// fill 16 MiB of memory while the snapshot is compressed and stored.
			grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
			// An etcd that has come back is to be seen at once; gRPC's own back-off
			// grows to two minutes.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff: backoff.Config{
					BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond,
				},
				MinConnectTimeout: cmp.Or(o.ConnectTimeout, time.Second),
			}),
		),
	})
	if err != nil {
		return nil, fmt.Errorf("open etcd client for %s: %w", strings.Join(o.Endpoints, ", "), err)
	}
	kept := clientv3.NewMaintenanceFromMaintenanceClient(clientv3.RetryMaintenanceClient(c, c.ActiveConnection()), c)
	return &Client{c: c, kept: kept, endpoints: endpoints, versions: versionClient(o.TLS)}, nil
}

// Close ends the connection.
func (c *Client) Close() error {
	c.versions.CloseIdleConnections()
	return c.c.Close()
}

// readTime is how long a member may take to answer a read through the quorum: a
// hundred times what a healthy one needs. A part of the caller's time is left
// for reporting that it did not.
const readTime = time.Second

func readContext(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := readTime
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)*4/5)
	}
	return context.WithTimeout(ctx, wait)
}

// Report asks the client's first endpoint about itself. It answers without a
// quorum, and for learners. At the same time it asks the member for a read
// through the quorum, because etcd reports the rest from memory, also where its
// disk hangs; so it takes up to a second where the member does not serve, and
// not longer than the rest where the member knows of no leader. While there is a
// learner it proposes an entry that changes nothing: a learner that got a snapshot
// serves only after the next entry, which may be hours away where nobody writes (seen
// with 3.6 and 3.7). The client must
// be one of a single endpoint.
func (c *Client) Report(ctx context.Context) (cluster.Report, error) {
	rctx, cancel := readContext(ctx)
	defer cancel()
	read := make(chan readAnswer, 1)
	go func() { read <- c.read(rctx) }()
	version := make(chan etcdversion.Version, 1)
	go func() { version <- clusterVersion(rctx, c.versions, c.endpoints[0]) }()
	s, err := c.kept.Status(ctx, c.endpoints[0])
	if err != nil {
		return cluster.Report{}, fmt.Errorf("status of %s: %w", c.endpoints[0], plain(err))
	}
	r := cluster.Report{
		ID:        cluster.MemberID(s.Header.MemberId),
		ClusterID: cluster.ClusterID(s.Header.ClusterId),
		Learner:   s.IsLearner,
		Leader:    cluster.MemberID(s.Leader),
		RaftTerm:  s.RaftTerm,
		Applied:   s.RaftAppliedIndex,
		Committed: s.RaftIndex,
		Revision:  cluster.Revision(s.Header.Revision),
		DBSize:    s.DbSize,
		Alarms:    alarms(s.Header.MemberId, s.Errors),
	}
	// A version that does not parse is left unknown: it decides nothing here.
	r.Version, _ = etcdversion.Parse(s.Version)
	r.Storage, _ = etcdversion.Parse(s.StorageVersion)
	r.Downgrade = downgradeIn(s)
	r.Cluster = <-version
	if s.IsLearner {
		return r, nil
	}
	l, err := c.c.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return cluster.Report{}, fmt.Errorf("member list of %s: %w", c.endpoints[0], plain(err))
	}
	r.Members = members(l.Members)
	if r.Leader != 0 && slices.ContainsFunc(r.Members, func(m cluster.Member) bool { return m.Learner }) {
		c.propose(rctx)
	}
	if r.Leader != 0 {
		answer := <-read
		r.Read, r.Denied = answer.read, answer.denied
	}
	return r, nil
}

// alarms picks a member's own alarms out of the error texts of a status
// response: "memberID:13803658152347727308 alarm:NOSPACE ".
func alarms(id uint64, texts []string) []string {
	var list []string
	for _, t := range texts {
		if !strings.Contains(t, fmt.Sprintf("memberID:%d ", id)) {
			continue
		}
		for _, a := range []string{"NOSPACE", "CORRUPT"} {
			if strings.Contains(t, "alarm:"+a) {
				list = append(list, a)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Members returns the member list as the quorum has it, by name and then id.
func (c *Client) Members(ctx context.Context) ([]cluster.Member, error) {
	l, err := c.c.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("member list: %w", plain(err))
	}
	return members(l.Members), nil
}

func members(list []*etcdserverpb.Member) []cluster.Member {
	out := make([]cluster.Member, len(list))
	for i, m := range list {
		out[i] = cluster.Member{
			ID:         cluster.MemberID(m.ID),
			Name:       cluster.NodeName(m.Name),
			PeerURLs:   m.PeerURLs,
			ClientURLs: m.ClientURLs,
			Learner:    m.IsLearner,
		}
	}
	slices.SortFunc(out, func(a, b cluster.Member) int {
		if c := strings.Compare(string(a.Name), string(b.Name)); c != 0 {
			return c
		}
		return strings.Compare(a.ID.String(), b.ID.String())
	})
	return out
}

// AddLearner adds a member without a vote.
func (c *Client) AddLearner(ctx context.Context, peerURLs []string) (cluster.MemberID, error) {
	r, err := c.c.MemberAddAsLearner(ctx, peerURLs)
	if err != nil {
		return 0, fmt.Errorf("add learner %s: %w", strings.Join(peerURLs, ","), plain(err))
	}
	return cluster.MemberID(r.Member.ID), nil
}

// Promote gives a learner its vote; one that has its vote is success: an earlier try, or
// another machine, was first. While it has not caught up the error is [ErrNotReady].
func (c *Client) Promote(ctx context.Context, id cluster.MemberID) error {
	_, err := c.c.MemberPromote(ctx, uint64(id))
	if err != nil && !errors.Is(err, rpctypes.ErrMemberNotLearner) {
		return fmt.Errorf("promote %s: %w", id, plain(err))
	}
	return nil
}

// Update has etcd look for a member at other peer URLs.
func (c *Client) Update(ctx context.Context, id cluster.MemberID, peerURLs []string) error {
	if _, err := c.c.MemberUpdate(ctx, uint64(id), peerURLs); err != nil {
		return fmt.Errorf("update %s to %s: %w", id, strings.Join(peerURLs, ","), plain(err))
	}
	return nil
}

// Remove takes a member out of the cluster; one that is not there is success.
func (c *Client) Remove(ctx context.Context, id cluster.MemberID) error {
	_, err := c.c.MemberRemove(ctx, uint64(id))
	if err != nil && !errors.Is(err, rpctypes.ErrMemberNotFound) {
		return fmt.Errorf("remove %s: %w", id, plain(err))
	}
	c.settle(ctx)
	return nil
}

// settle has the members write to disk that the removal is committed. Of two
// members the one that stays knows this only in memory; killed now, it would
// come back and ask the one that went for its vote, forever. The next entry of
// raft's log takes the knowledge to disk.
func (c *Client) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for range 5 {
		if c.propose(ctx) || ctx.Err() != nil {
			return
		}
	}
}

// Propose appends n entries to raft's log that change nothing. It returns early where
// ctx ends, or an entry is not committed.
func (c *Client) Propose(ctx context.Context, n int) error {
	const together = 64 // etcd writes them to its disk in batches
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(together)
	for range n {
		group.Go(func() error {
			if !c.propose(ctx) {
				return cmp.Or(context.Cause(ctx), errNotCommitted)
			}
			return nil
		})
	}
	return group.Wait()
}

var errNotCommitted = errors.New("an entry without effect was not committed")

// propose appends an entry to raft's log that changes nothing: the revocation of a
// lease that does not exist. It reports whether the entry was committed.
func (c *Client) propose(ctx context.Context) bool {
	_, err := c.c.Revoke(ctx, math.MaxInt64)
	return errors.Is(err, rpctypes.ErrLeaseNotFound)
}

// MoveLeader makes another voter the raft leader. etcd takes the call on the
// leader only, so c must have the leader's endpoint.
func (c *Client) MoveLeader(ctx context.Context, to cluster.MemberID) error {
	if _, err := c.c.MoveLeader(ctx, uint64(to)); err != nil {
		return fmt.Errorf("move leader to %s: %w", to, plain(err))
	}
	return nil
}

// plain gives the errors that callers decide by their own identity.
func plain(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrMemberLearnerNotReady):
		return ErrNotReady
	case errors.Is(err, rpctypes.ErrTooManyLearners):
		return ErrLearnerPending
	case errors.Is(err, rpctypes.ErrUnhealthy), errors.Is(err, rpctypes.ErrMemberNotEnoughStarted):
		return ErrUnhealthy
	case Denied(err):
		return fmt.Errorf("%w (authentication is on: etcd uses the common name of the client's certificate as its user, "+
			"which needs the role root: etcdctl user add NAME --no-password; etcdctl user grant-role NAME root)", err)
	}
	return err
}
