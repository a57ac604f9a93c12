package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// The form of the description that this package writes. It counts up when a
// reader that does not know of a change would misread a backup; new fields
// alone do not.
const format = 1

// A Digest is the size and the SHA-256 of some bytes.
type Digest struct {
	// Size is in bytes.
	Size int64 `json:"size"`
	// SHA256 is in lower-case hexadecimal.
	SHA256 string `json:"sha256"`
}

// IsZero reports whether nothing is known.
func (d Digest) IsZero() bool { return d == Digest{} }

// Facts are what a backup taker knows of the member that it reads. All of it may be
// left out.
type Facts struct {
	// StorageVersion is the form of the data, which etcd reports from 3.6 on.
	StorageVersion etcdversion.Version `json:"storageVersion,omitzero"`
	// Revision is that of the member just before the snapshot was asked for: the
	// snapshot has it, and may have a few later ones. So do RaftTerm and
	// RaftIndex, which is the index that was applied.
	Revision  cluster.Revision `json:"revision,omitempty"`
	RaftTerm  uint64           `json:"raftTerm,omitempty"`
	RaftIndex uint64           `json:"raftIndex,omitempty"`
	// Reason is why it was taken, as the operation that took it says.
	Reason string `json:"reason,omitempty"`
	// Cluster is the name of the cluster, ClusterID etcd's number for it.
	Cluster    string            `json:"cluster,omitempty"`
	ClusterID  cluster.ClusterID `json:"clusterID,omitempty"`
	MemberID   cluster.MemberID  `json:"memberID,omitempty"`
	MemberName cluster.NodeName  `json:"memberName,omitempty"`
	// Keys is how many keys there were at Revision. What is not known is -1 in a description;
	// a backup taker may leave it zero.
	Keys int64 `json:"-"`
	// Source is the SHA-256 of the files that the backup was made of, empty where it is of
	// a running member.
	Source string `json:"source,omitempty"`
}

// A Description says all that is known of a backup.
type Description struct {
	// Format is the form of this description, zero for a backup of the existing
	// etcd-manager, which only the marker shows.
	Format int `json:"format,omitempty"`
	// Name is the backup's. It ties the description to its backup.
	Name string `json:"name"`
	Info
	Facts
	// Content is the snapshot, with the digest that etcd puts at its end. Object
	// is the data as it is stored: compressed, and maybe encrypted.
	Content Digest `json:"content,omitzero"`
	Object  Digest `json:"object,omitzero"`
	// Marker is the marker file.
	Marker Digest `json:"marker,omitzero"`
	// Compression is Gzip or Zstd, Encryption empty or Age.
	Compression string `json:"compression,omitempty"`
	Encryption  string `json:"encryption,omitempty"`
	// Recipients are those who can decrypt it, as Recipient.String names them.
	Recipients []string `json:"recipients,omitempty"`
	// Signer is the id of the key that the description is signed with, empty for
	// one that is not. It is a claim: Fetch verifies it.
	Signer string `json:"signer,omitempty"`
	// Tool is the name and version of the program that took the backup.
	Tool string `json:"tool,omitempty"`

	// Signed says that there is a Signer, and Trusted that its signature has been
	// verified.
	Signed  bool `json:"-"`
	Trusted bool `json:"-"`
}

// plain is a Description without methods.
type plain Description

// A wire is the JSON of a description.
type wire struct {
	*plain
	Keys *int64 `json:"keys,omitempty"`
}

// MarshalJSON leaves out the number of keys where it is not known.
func (d Description) MarshalJSON() ([]byte, error) {
	w := wire{plain: (*plain)(&d)}
	if d.Keys > 0 {
		w.Keys = &d.Keys
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON wrote, and ignores fields that it does
// not know.
func (d *Description) UnmarshalJSON(b []byte) error {
	w := wire{plain: (*plain)(d)}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	d.Keys = -1
	if w.Keys != nil && *w.Keys >= 0 {
		d.Keys = *w.Keys
	}
	d.Signed = d.Signer != ""
	return nil
}

// DataFile returns the name of the data below the backup's name.
func (d Description) DataFile() string { return dataFile(d.Compression, d.Encryption) }

// The last two lines of a description file are the SHA-256 of all lines before
// them, so that a damaged description is known without a signature, too.
const (
	sumBefore = "  \"sum\": \""
	sumAfter  = "\"\n}\n"
	sumSize   = len(sumBefore) + 2*sha256.Size + len(sumAfter)
)

// Encode returns the description file.
func (d Description) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, err
	}
	// There is a name at least, so a comma is right.
	b = append(bytes.TrimSuffix(b, []byte("\n}")), ",\n"...)
	sum := sha256.Sum256(b)
	return fmt.Appendf(b, "%s%x%s", sumBefore, sum, sumAfter), nil
}

// ReadDescription reads a description file. It says nothing of whether that
// fits the backup that it lies in. The error is ErrDamaged for what is none,
// and ErrFormat for one of a later form than this package knows.
func ReadDescription(b []byte) (Description, error) {
	var d Description
	body, end := b[:max(0, len(b)-sumSize)], b[max(0, len(b)-sumSize):]
	sum := sha256.Sum256(body)
	intact := string(end) == fmt.Sprintf("%s%x%s", sumBefore, sum, sumAfter)
	var head struct {
		Format int `json:"format"`
	}
	err := json.Unmarshal(b, &head)
	switch {
	case err == nil && head.Format > format:
		return d, fmt.Errorf("%w: its description has format %d, this program knows %d", ErrFormat, head.Format, format)
	case !intact:
		return d, damagedf("its description does not match its last lines")
	case err != nil:
		return d, damagedf("its description cannot be read: %v", err)
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return Description{}, damagedf("its description cannot be read: %v", err)
	}
	return d, d.validate()
}

// validate reports what is missing or wrong in a description.
func (d Description) validate() error {
	switch {
	case d.Format < 1:
		return damagedf("its description has no format")
	case d.Name == "":
		return damagedf("its description has no name")
	case d.EtcdVersion.IsZero():
		return damagedf("its description has no etcdVersion")
	case d.Compression != Gzip && d.Compression != Zstd:
		return damagedf("its description has the compression %q, not gzip or zstd", d.Compression)
	case d.Revision < 0 || d.Revision > cluster.MaxMark:
		return damagedf("its description has the revision %d, which is not possible", d.Revision)
	case d.Encryption != "" && d.Encryption != Age:
		return damagedf("its description has the encryption %q, not age", d.Encryption)
	}
	for what, digest := range map[string]Digest{"content": d.Content, "object": d.Object, "marker": d.Marker} {
		if digest.Size <= 0 || !isSHA256(digest.SHA256) {
			return damagedf("its description has no %s size and SHA-256", what)
		}
	}
	return nil
}

func isSHA256(s string) bool {
	if len(s) != 64 {
		return false
	}
	for _, c := range s {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Describe returns what a backup says of itself: its description where it has
// one, else what its marker says. The error is that of the store if there is no
// marker, hence no backup, and ErrDamaged if the two do not belong together.
func Describe(ctx context.Context, store Objects, name string) (Description, error) {
	d, _, err := describe(ctx, store, name)
	if err != nil {
		return Description{}, fmt.Errorf("describe backup %s: %w", name, err)
	}
	return d, nil
}

// describe also returns the description file, nil where there is none.
func describe(ctx context.Context, store Objects, name string) (Description, []byte, error) {
	b, err := store.Get(ctx, name+"/"+retention.MarkerFile)
	if err != nil {
		return Description{}, nil, err
	}
	marker := b
	info, infoErr := ReadInfo(marker)
	b, there, err := optional(ctx, store, name+"/"+retention.DescriptionFile)
	if err != nil {
		return Description{}, nil, err
	}
	if !there {
		return Description{Name: name, Info: info, Facts: Facts{Keys: -1}}, nil, infoErr
	}
	d, err := ReadDescription(b)
	if err != nil {
		return Description{}, nil, err
	}
	return d, b, d.belongs(name, marker)
}

// belongs reports why d cannot be the description of a backup with this name
// and marker.
func (d Description) belongs(name string, marker []byte) error {
	if d.Name != name {
		return damagedf("its description belongs to the backup %q", d.Name)
	}
	return d.Marker.compare("marker", digestOf(marker))
}

func digestOf(b []byte) Digest {
	sum := sha256.Sum256(b)
	return Digest{int64(len(b)), hex.EncodeToString(sum[:])}
}

// optional returns an object that need not be there.
func optional(ctx context.Context, store Objects, key string) (b []byte, there bool, err error) {
	b, err = store.Get(ctx, key)
	if err == nil {
		return b, true, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	// Stores have words of their own for it, which this package does not know.
	if asker, ok := store.(interface {
		Exists(ctx context.Context, key string) (bool, error)
	}); ok {
		if there, observeErr := asker.Exists(ctx, key); observeErr == nil && !there {
			return nil, false, nil
		}
	}
	return nil, false, err
}
