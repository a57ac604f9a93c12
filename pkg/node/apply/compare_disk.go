package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/isolate"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/keyspace"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// A finding is what a comparison before a start has come to, where the member may
// start.
type finding int

const (
	// foundNothing: the node could not compare the data on its disk.
	foundNothing finding = iota
	// foundEqual: a majority of the voters holds the same.
	foundEqual
	// foundOpen: others hold other data, and no majority says who is right, or they have
	// compacted what could be compared. The member is compared when it has caught up.
	foundOpen
)

// errBehind says that the others have compacted the revision of the data on the disk.
var errBehind = errors.New("the others have compacted this revision")

// A compactedDatabase is a database whose digest is asked for, and from where on.
type compactedDatabase struct {
	Path      string           `json:"path"`
	Compacted cluster.Revision `json:"compacted"`
}

// digesting reads a database in a process of its own: what that takes is free again when
// etcd starts.
var digesting = isolate.Define("digest-database", isolate.Options{Memory: isolate.PerByte(8)},
	func(ctx context.Context, q compactedDatabase, progress func(done, total int64)) (d cluster.Digest, err error) {
		s, err := keyspace.Open(ctx, q.Path, keyspace.Options{SkipDigest: true, Progress: progress})
		if err != nil {
			return d, err
		}
		h, err := s.HashFrom(ctx, q.Compacted)
		return cluster.Digest(h), errors.Join(err, s.Close())
	})

// compareDisk compares what is on the node's disk, where no etcd runs, with what the
// other voters hold at the same revision. A difference counts when it is seen twice, with
// some time in between: it is written down then, and is a [*DiffersError].
func (l *Local) compareDisk(ctx context.Context, s nodestate.State, binary string) (finding, error) {
	disk := nodestate.Disk(l.o.DataDir, s)
	if disk.State != cluster.DiskData || disk.Token != s.Assigned.Token || len(s.Voters) < 2 {
		return foundNothing, nil
	}
	// Its directory may be named after another patch release.
	version, err := etcdbin.Probe(ctx, binary)
	if err != nil || !keyspace.HashKnown(version) {
		return foundNothing, nil
	}
	found := foundNothing
	for try := range compareTries {
		if wait.For(ctx, time.Duration(try)*compareTick) != nil {
			return found, nil
		}
		c, err := l.collectDisk(ctx, s, version)
		if c.agreement == cluster.Differs {
			if c, err = l.differsTwice(ctx, s, version, c); c.agreement == cluster.Differs {
				return foundNothing, err
			}
		}
		switch {
		case errors.Is(err, errBehind), c.agreement == cluster.Disputed:
			found = foundOpen
		case c.agreement == cluster.Agrees:
			return foundEqual, nil
		}
		if err != nil {
			return found, nil
		}
	}
	return found, nil
}

// differsTwice compares once more after a difference was found. If it is found again, it
// is written down.
func (l *Local) differsTwice(ctx context.Context, s nodestate.State, version etcdversion.Version, first comparison) (
	comparison, error) {
	text := fmt.Sprintf("its data differs from that of %s, a majority, at revision %d", list(first.unlike), first.own.Revision)
	l.comparer.dispute(fmt.Sprintf("%s; it will not be started if that is still so in %s", text, l.o.recheck))
	defer l.comparer.dispute("")
	if err := wait.For(ctx, l.o.recheck); err != nil {
		return comparison{}, err
	}
	c, err := l.collectDisk(ctx, s, version)
	if c.agreement != cluster.Differs {
		return c, err
	}
	if err := l.condemn(s, text); err != nil {
		return c, err
	}
	return c, &DiffersError{text}
}

// collectDisk asks the other voters one after the other for their digests at the revision
// of the data on the disk, until a majority is found, and makes that of the disk as of
// their compaction. An error is one that the next try would meet, too.
func (l *Local) collectDisk(ctx context.Context, s nodestate.State, version etcdversion.Version) (
	c comparison, err error) {
	p, err := l.digestPeer()
	if err != nil {
		return c, err
	}
	defer p.Close()
	q := compactedDatabase{Path: filepath.Join(nodestate.DataDir(l.o.DataDir, s.Assigned.Token), "member", "snap", "db")}
	status, err := snapshot.Peek(q.Path)
	if err != nil {
		return c, err
	}
	at, behind := max(status.Revision, 1), false
	c.voters = len(s.Voters)
	counts := slices.ContainsFunc(s.Voters, func(v cluster.InitialMember) bool { return v.Name == l.o.Name })
	quick, cancel := within(ctx, l.o.answerTimeout)
	defer cancel()
	others := reachable(quick, p, l.others(s.Voters))
	var voices []cluster.Voice
	for _, o := range inTurn(others, l.o.Name, l.leads(quick, p, others)) {
		// Those that do not have this revision yet are asked again.
		if err := o.digest(ctx, p, at); err != nil {
			behind = behind || errors.Is(err, etcdclient.ErrCompacted)
			continue
		}
		if voices == nil || o.CompactRevision != c.own.CompactRevision {
			q.Compacted = o.CompactRevision
			if c.own, err = l.digestDisk(ctx, q, version); err != nil {
				return c, err
			}
		}
		voices = append(voices, o.Voice)
		c.agreement, c.unlike = cluster.Compare(c.voters, c.own, counts, voices)
		if c.agreement == cluster.Agrees || c.agreement == cluster.Differs {
			return c, nil
		}
	}
	if behind {
		err = errBehind
	}
	return c, err
}

// digestDisk makes the digest of the data on the disk.
func (l *Local) digestDisk(ctx context.Context, q compactedDatabase, version etcdversion.Version) (
	cluster.Voice, error) {
	file, err := os.Stat(q.Path)
	if err != nil {
		return cluster.Voice{}, err
	}
	d, err := digesting.Call(ctx, isolate.Input[compactedDatabase]{Value: q, Size: file.Size()})
	return cluster.Voice{Name: l.o.Name, Version: version, Digest: d}, err
}

// leads asks members that serve for the leader, and returns "" where none tells.
func (l *Local) leads(ctx context.Context, p *etcdclient.Peer, serving []asked) cluster.NodeName {
	ctx, cancel := context.WithTimeout(ctx, servesTimeout)
	defer cancel()
	leaders := ask(serving, func(a asked) (cluster.NodeName, error) {
		var members []cluster.Member
		err := anyURL(a.urls, func(u string) (err error) {
			members, err = p.Members(ctx, u)
			return err
		})
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(members, func(m cluster.Member) bool { return m.Name == a.Name && len(m.ClientURLs) > 0 })
		if i < 0 {
			return "", refuse("%s tells no client URL", a.Name)
		}
		c, err := etcdclient.Open(etcdclient.Options{Endpoints: members[i].ClientURLs[:1], TLS: l.clientTLS()})
		if err != nil {
			return "", err
		}
		defer func() { _ = c.Close() }()
		id, err := c.Leader(ctx)
		if i = slices.IndexFunc(members, func(m cluster.Member) bool { return m.ID == id }); i >= 0 {
			return members[i].Name, nil
		}
		return "", errors.Join(refuse("no member is %s", id), err)
	})
	if len(leaders) == 0 {
		return ""
	}
	return leaders[0]
}
