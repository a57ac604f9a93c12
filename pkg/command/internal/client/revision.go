package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdutl"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// margin is how far above the highest known revision a restored cluster begins:
// what is known is some time old. A thousand million are a day of ten thousand
// writes a second.
const margin cluster.Revision = 1_000_000_000

// A highest is the highest revision that a store knows of.
type highest struct {
	revision cluster.Revision
	// why says where it is from.
	why string
	// err is why there is none.
	err error
}

// highestOf asks a store for the highest revision that its cluster has reached:
// its record of that, and what the newest backup says, which may be newer than
// the record.
func highestOf(ctx context.Context, st *store.Store) (h highest) {
	mark, err := st.Revision(ctx)
	switch {
	case err == nil:
		h = highest{revision: mark, why: "the store's control/revision"}
	case !errors.Is(err, store.ErrAbsent):
		h.err = err
	}
	all, err := st.Backups(ctx)
	if err != nil || len(all) == 0 {
		h.err = errors.Join(h.err, err)
		return h
	}
	newest, err := backup.Describe(ctx, st, all[0].Name)
	if err == nil && newest.Revision > h.revision {
		h.revision, h.why = newest.Revision, "the newest backup, "+newest.Name
	}
	return h
}

// above returns the revision at which a cluster begins that must be above
// another one: a whole number of thousand millions, so that each machine comes
// to the same one though the record grows meanwhile.
func above(known cluster.Revision) cluster.Revision {
	return (known+margin-1)/margin*margin + margin
}

// raise decides by how much the revision of a snapshot is raised.
func (r *restore) raise(snapshot cluster.Revision, k known, tool etcdutl.Tool, x *restored) error {
	x.Revision, x.Highest = snapshot, k.highest.revision
	f := r.cmd.Flags()
	switch {
	case f.Changed("bump-revision"):
		x.BumpRevision = r.bump
	case f.Changed("above-revision"), k.highest.revision > 0:
		x.Highest = max(x.Highest, cluster.Revision(r.above))
		begin := above(max(snapshot, x.Highest))
		if begin > cluster.MaxBegin {
			return noRoom(snapshot, k.highest)
		}
		x.BumpRevision = uint64(begin - snapshot)
	}
	x.RevisionAfter = snapshot + cluster.Revision(x.BumpRevision)
	if x.Highest > snapshot {
		x.LostRevisions = x.Highest - snapshot
	}
	if x.BumpRevision > 0 && !tool.Bumps {
		return &cli.RefusedError{
			Text: fmt.Sprintf("%s cannot raise the revision to %d, which is above what clients have seen", tool.Path, x.RevisionAfter),
			Next: "use etcd 3.5.10 or later, or accept that the revision goes back: --bump-revision=0",
		}
	}
	return nil
}

// noRoom is the error where a cluster that begins above the snapshot and the highest known
// revision could not be backed up or restored any more.
func noRoom(snapshot cluster.Revision, h highest) error {
	if snapshot >= h.revision {
		return &cli.RefusedError{
			Text: fmt.Sprintf("the snapshot has revision %d, and no restored cluster begins above %d", snapshot, cluster.MaxBegin),
			Next: "if clients have seen that revision, accept that they see it again, with --bump-revision=0, and restart them",
		}
	}
	return &cli.RefusedError{
		Text: fmt.Sprintf("%s says that clients have seen revision %d, and no restored cluster begins above %d", h.why,
			h.revision, cluster.MaxBegin),
		Next: "delete that from the store if no member ever reported such a revision, or raise the revision by yourself with " +
			"--bump-revision=N",
	}
}

// warnOfRevision says what is not known of the revisions that clients have
// seen.
func (r *restore) warnOfRevision(from source, k known, x restored) {
	switch {
	case x.LostRevisions > 0 && x.RevisionAfter <= x.Highest:
		r.say("warning: revision %d is not above %d, which clients may have seen", x.RevisionAfter, x.Highest)
	case x.BumpRevision > 0 || r.cmd.Flags().Changed("bump-revision"):
	case k.highest.err != nil:
		r.say("warning: cannot determine which revisions clients have seen: %v; raise the revision above them with "+
			"--above-revision", k.highest.err)
	case from.InStore():
		r.say("warning: the store does not say which revisions clients have seen; raise the revision above them with " +
			"--above-revision")
	}
}
