package etcdclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// The kinds of alarms.
const (
	// NoSpace: the database has reached its quota, and the cluster takes no
	// writes.
	NoSpace = "NOSPACE"
	// Corrupt: the member's data differs from that of the others.
	Corrupt = cluster.AlarmCorrupt
)

// An Alarm is one that a member has raised. It stays until somebody disarms it.
type Alarm struct {
	Member cluster.MemberID `json:"member"`
	// Kind is [NoSpace], [Corrupt], or what a later etcd calls its own.
	Kind string `json:"alarm"`
}

// Alarms returns the alarms of all members, as the quorum has them.
func (c *Client) Alarms(ctx context.Context) ([]Alarm, error) {
	r, err := c.c.AlarmList(ctx)
	if err != nil {
		return nil, fmt.Errorf("list alarms: %w", plain(err))
	}
	var list []Alarm
	for _, a := range r.Alarms {
		list = append(list, Alarm{Member: cluster.MemberID(a.MemberID), Kind: a.Alarm.String()})
	}
	return list, nil
}

// Disarm takes alarms back. etcd does not check whether their reason is gone.
// One that is not raised is success.
func (c *Client) Disarm(ctx context.Context, alarms ...Alarm) error {
	for _, a := range alarms {
		kind, ok := etcdserverpb.AlarmType_value[a.Kind]
		if !ok {
			return fmt.Errorf("disarm %s of %s: there is no such alarm", a.Kind, a.Member)
		}
		m := &clientv3.AlarmMember{MemberID: uint64(a.Member), Alarm: etcdserverpb.AlarmType(kind)}
		if _, err := c.c.AlarmDisarm(ctx, m); err != nil {
			return fmt.Errorf("disarm %s of %s: %w", a.Kind, a.Member, plain(err))
		}
	}
	return nil
}

// Defragment has the member at an endpoint write its database again, without
// the free pages in it. The member answers nothing else until that is done,
// which takes seconds for each gigabyte.
func (c *Client) Defragment(ctx context.Context, endpoint string) error {
	if _, err := c.c.Defragment(ctx, endpoint); err != nil {
		return fmt.Errorf("defragment %s: %w", endpoint, plain(err))
	}
	return nil
}

// A Hash is the digest of a member's keys.
type Hash = cluster.Digest

// HashKV returns the digest of the keys of the member at an endpoint, as of a
// revision, or of the present one for zero. It reads the whole database.
//
// etcd 3.4 refuses the revision of its last compaction, which is the present one of a
// member that was restored. Then it is asked for the present one.
func (c *Client) HashKV(ctx context.Context, endpoint string, rev cluster.Revision) (Hash, error) {
	r, err := c.c.HashKV(ctx, endpoint, int64(rev))
	if rev != 0 && errors.Is(err, rpctypes.ErrCompacted) {
		now, nowErr := c.c.HashKV(ctx, endpoint, 0)
		if nowErr == nil && now.Header.Revision == int64(rev) && now.CompactRevision == int64(rev) {
			r, err = now, nil
		}
	}
	if err != nil {
		return Hash{}, fmt.Errorf("hash of %s: %w", endpoint, plain(err))
	}
	h := Hash{Hash: r.Hash, Revision: rev, CompactRevision: cluster.Revision(r.CompactRevision)}
	if rev == 0 {
		h.Revision = cluster.Revision(r.Header.Revision)
	}
	return h, nil
}

// Leader returns the member that the first endpoint follows, zero where it has no
// leader. It answers without asking others.
func (c *Client) Leader(ctx context.Context) (cluster.MemberID, error) {
	s, err := c.c.Status(ctx, c.endpoints[0])
	if err != nil {
		return 0, fmt.Errorf("status of %s: %w", c.endpoints[0], plain(err))
	}
	return cluster.MemberID(s.Leader), nil
}

// compactedTimeout bounds the question for the last compaction: etcd reports it at
// once, and reports nothing where there was none.
const compactedTimeout = time.Second

// Compacted returns the revision of the last compaction that the member knows of.
// The error is that of the context, or a deadline of a second, where there was none.
func (c *Client) Compacted(ctx context.Context) (cluster.Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, compactedTimeout)
	defer cancel()
	for r := range c.c.Watch(ctx, "\x00", clientv3.WithRev(1)) {
		if r.CompactRevision != 0 {
			return cluster.Revision(r.CompactRevision), nil
		}
		if err := r.Err(); err != nil {
			return 0, fmt.Errorf("ask for the last compaction: %w", plain(err))
		}
	}
	return 0, fmt.Errorf("ask for the last compaction: %w", context.Cause(ctx))
}

// healthKey is the key that etcd's own health check reads. It need not exist.
const healthKey = "health"

// CountKeys returns how many keys the member had at a revision that it has not
// compacted. It counts in its index and reads no values.
func (c *Client) CountKeys(ctx context.Context, at cluster.Revision) (int64, error) {
	r, err := c.c.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithCountOnly(), clientv3.WithSerializable(),
		clientv3.WithRev(int64(at)))
	if err != nil {
		return 0, fmt.Errorf("count keys: %w", plain(err))
	}
	return r.Count, nil
}

// Healthy reports whether the cluster serves: it reads a key through the
// quorum. Where authentication is on and this client may not read, the refusal
// is an answer of a healthy cluster too.
func (c *Client) Healthy(ctx context.Context) error {
	_, err := c.c.Get(ctx, healthKey, clientv3.WithKeysOnly())
	if err == nil || answersByRefusing(err) {
		return nil
	}
	return fmt.Errorf("read through the quorum: %w", plain(err))
}

func answersByRefusing(err error) bool {
	return errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty)
}

// Compact removes the history of all keys before a revision. It returns when
// the member has removed it from its database, whose free space [Client.Defragment]
// gives back.
func (c *Client) Compact(ctx context.Context, rev cluster.Revision) error {
	_, err := c.c.Compact(ctx, int64(rev), clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact to revision %d: %w", rev, plain(err))
	}
	return nil
}
