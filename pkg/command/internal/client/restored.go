package client

import (
	"fmt"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A restored data directory is the result of "snapshot restore".
type restored struct {
	From    string `json:"from"`
	DataDir string `json:"dataDir"`
	// Taken is when the backup was, and TakenOf the etcd that it was taken of.
	Taken   time.Time           `json:"taken,omitzero"`
	TakenOf etcdversion.Version `json:"takenOf,omitzero"`
	// Signer is the id of the trusted key that the backup is signed with.
	Signer    string `json:"signer,omitempty"`
	Encrypted bool   `json:"encrypted,omitempty"`
	// Revision is the snapshot's, to which BumpRevision is added; the cluster
	// begins at RevisionAfter.
	Revision      cluster.Revision `json:"revision,omitempty"`
	BumpRevision  uint64           `json:"bumpRevision,omitempty"`
	RevisionAfter cluster.Revision `json:"revisionAfter,omitempty"`
	// Highest is the highest revision that is known of the cluster before, which
	// had LostRevisions more than the snapshot.
	Highest       cluster.Revision `json:"highestRevision,omitempty"`
	LostRevisions cluster.Revision `json:"lostRevisions,omitempty"`
	Keys          int              `json:"keys,omitempty"`
	// Size is the snapshot's. Needed and Free are the bytes on the disk of the
	// data directory.
	Size           int64               `json:"size,omitempty"`
	Needed         int64               `json:"needed,omitempty"`
	Free           int64               `json:"free,omitempty"`
	Name           string              `json:"name"`
	PeerURLs       []string            `json:"initialAdvertisePeerURLs"`
	InitialCluster string              `json:"initialCluster"`
	Token          string              `json:"initialClusterToken,omitempty"`
	Tool           string              `json:"tool"`
	Version        etcdversion.Version `json:"version"`
	DryRun         bool                `json:"dryRun,omitempty"`
}

// know takes over what a backup says of itself.
func (x *restored) know(k known) {
	x.Taken, x.TakenOf, x.Encrypted = k.At, k.EtcdVersion, k.Encryption != ""
	x.Revision, x.Keys, x.Size = k.Revision, int(max(k.Keys, 0)), k.Content.Size
	if k.Trusted {
		x.Signer = k.Signer
	}
}

func (r *restore) report(x restored) error {
	verb := "restored"
	if x.DryRun {
		verb = "would restore"
	}
	table := [][]string{{"FROM", x.From}}
	if !x.Taken.IsZero() {
		table = append(table, []string{
			"TAKEN", fmt.Sprintf("%s (%s ago) of etcd %s", x.Taken.Format(time.RFC3339), render.Age(time.Since(x.Taken)),
				x.TakenOf),
		})
	}
	if x.Signer != "" {
		table = append(table, []string{"SIGNED", "with the trusted key " + x.Signer})
	}
	table = append(table, [][]string{
		{"DATA DIR", x.DataDir}, {"MEMBER", x.Name}, {"INITIAL CLUSTER", x.InitialCluster},
		{"TOKEN", x.Token}, {"TOOL", fmt.Sprintf("%s (%s)", x.Tool, x.Version)},
	}...)
	if x.Revision > 0 {
		text := fmt.Sprint(x.RevisionAfter)
		if x.BumpRevision > 0 {
			text += fmt.Sprintf(" (%d in the snapshot; everything before is compacted)", x.Revision)
		}
		table = append(table, []string{"REVISION", text})
	}
	if x.Keys > 0 {
		table = append(table, []string{"KEYS", fmt.Sprint(x.Keys)})
	}
	if x.Size > 0 {
		table = append(table, []string{"SIZE", render.Bytes(x.Size)})
	}
	if x.DryRun {
		table = append(table, []string{"DISK", x.disk()})
	}
	if text := x.lost(); text != "" {
		table = append(table, []string{"LOST", text})
	}
	r.say("%s:", verb)
	if x.BumpRevision > 0 && len(x.PeerURLs) < len(members(x.InitialCluster)) {
		r.say("the other machines must arrive at revision %d, too: otherwise their tokens differ", x.RevisionAfter)
	}
	return r.print("RestoredSnapshot", x, rows(table...))
}

func (x restored) disk() string {
	free := render.Bytes(x.Free) + " free"
	if x.Needed == 0 {
		return free
	}
	return fmt.Sprintf("%s needed, %s", render.Bytes(x.Needed), free)
}

// lost says what the cluster before had and the new one has not.
func (x restored) lost() string {
	switch {
	case x.LostRevisions > 0 && !x.Taken.IsZero():
		return fmt.Sprintf("all since %s: %d revisions up to %d, the highest that is known", x.Taken.Format(time.RFC3339),
			x.LostRevisions, x.Highest)
	case x.LostRevisions > 0:
		return fmt.Sprintf("%d revisions up to %d, the highest that is known", x.LostRevisions, x.Highest)
	case !x.Taken.IsZero():
		return "all since " + x.Taken.Format(time.RFC3339)
	}
	return ""
}
