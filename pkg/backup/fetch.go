package backup

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
)

// Objects are the part of a store that backups are read from.
type Objects interface {
	// Get returns the content of a small object.
	Get(ctx context.Context, key string) ([]byte, error)
	// Open returns the content of an object as a stream, which ends with ctx.
	Open(ctx context.Context, key string) (io.ReadCloser, error)
}

// FetchOptions say how a backup is read.
type FetchOptions struct {
	// Keys are tried in turn on an encrypted backup.
	Keys []Identity
	// Trusted are the signers whose signatures count. Where there are any, and with
	// RequireSignature, a backup that none of them has signed is refused.
	Trusted          Trusted
	RequireSignature bool
	// Cluster is the name of the cluster that a signed backup must be of, empty for
	// any. One key may sign the backups of many clusters.
	Cluster string
	// MaxBytes bounds the size of the snapshot, zero for no bound but those that
	// always hold: what the description says, or else a hundred times the object.
	MaxBytes int64
	// Progress, if not nil, receives how many bytes of the snapshot have been
	// written so far.
	Progress func(n int64)
}

// NeedsSignature reports whether only signed backups are good: who trusts a
// signer does so because the store is not to be trusted.
func (o FetchOptions) NeedsSignature() bool { return o.RequireSignature || len(o.Trusted) > 0 }

// Fetch writes the snapshot of a backup to w, as "etcdctl snapshot save" would
// have: the database and its digest. It returns what the backup says of itself,
// with the content that was written. It checks all that is known: that the
// description belongs to the backup, its signature, the digests of the object
// and of the content, and etcd's own. Whatever the error, what has been written
// to w is then worth nothing. It is ErrDamaged, ErrKey, ErrSigner, ErrFormat, or
// that of the store or of w.
func Fetch(ctx context.Context, store Objects, name string, w io.Writer, o FetchOptions) (Description, error) {
	d, err := fetch(ctx, store, name, w, o)
	if err != nil {
		return d, fmt.Errorf("fetch backup %s: %w", name, err)
	}
	return d, nil
}

// Inspect is Describe with the check of the signature that Fetch does: all that
// can be said of a backup without reading its data.
func Inspect(ctx context.Context, store Objects, name string, o FetchOptions) (Description, error) {
	d, err := o.describe(ctx, store, name)
	if err != nil {
		return d, fmt.Errorf("inspect backup %s: %w", name, err)
	}
	return d, nil
}

// Verify reports whether a backup is what was taken: it does all that Fetch
// does, and keeps nothing.
func Verify(ctx context.Context, store Objects, name string, o FetchOptions) (Description, error) {
	d, err := fetch(ctx, store, name, io.Discard, o)
	if err != nil {
		return d, fmt.Errorf("verify backup %s: %w", name, err)
	}
	return d, nil
}

// VerifyObject is Verify without a key: of an encrypted backup it checks the
// description, its signature and the digest of the object, which is all that
// can be said without decrypting it. It needs a description (ErrKey).
func VerifyObject(ctx context.Context, store Objects, name string, o FetchOptions) (Description, error) {
	d, err := verifyObject(ctx, store, name, o)
	if err != nil {
		return d, fmt.Errorf("verify backup %s: %w", name, err)
	}
	return d, nil
}

func verifyObject(ctx context.Context, store Objects, name string, o FetchOptions) (Description, error) {
	d, err := o.describe(ctx, store, name)
	if err != nil {
		return d, err
	}
	if d.Object.IsZero() {
		return d, fmt.Errorf("%w: it has no description to compare its object with", ErrKey)
	}
	object, err := store.Open(ctx, name+"/"+d.DataFile())
	if err != nil {
		return d, err
	}
	defer object.Close()
	in := newMeter(object)
	if _, err := io.Copy(io.Discard, io.LimitReader(in, d.Object.Size+1)); err != nil {
		return d, err
	}
	return d, d.Object.compare("object", in.digest())
}

// describe reads the description and verifies its signature.
func (o FetchOptions) describe(ctx context.Context, store Objects, name string) (Description, error) {
	d, file, err := describe(ctx, store, name)
	if err != nil {
		return d, err
	}
	if !o.NeedsSignature() {
		return d, nil
	}
	if d.Signer == "" {
		return d, fmt.Errorf("%w: it is not signed", ErrSigner)
	}
	signature, there, err := optional(ctx, store, name+"/"+retention.SignatureFile)
	if err != nil {
		return d, err
	}
	if !there {
		return d, fmt.Errorf("%w: its description says that key %.40q has signed it, but the signature is missing", ErrSigner,
			d.Signer)
	}
	if err := o.Trusted.verify(d.Signer, file, signature); err != nil {
		return d, err
	}
	if o.Cluster != "" && d.Cluster != o.Cluster {
		return d, fmt.Errorf("%w of this cluster: it is signed as a backup of %.100q, not of %q", ErrSigner, d.Cluster,
			o.Cluster)
	}
	d.Trusted = true
	return d, nil
}

func fetch(ctx context.Context, store Objects, name string, w io.Writer, o FetchOptions) (Description, error) {
	d, err := o.describe(ctx, store, name)
	if err != nil {
		return d, err
	}
	if o.MaxBytes > 0 && d.Content.Size > o.MaxBytes {
		return d, fmt.Errorf("it has %d bytes, at most %d are allowed", d.Content.Size, o.MaxBytes)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	object, err := d.open(ctx, store)
	if err != nil {
		return d, err
	}
	defer object.Close()
	got, err := o.unpack(object, cancel, d, w)
	return got, err
}

// open opens the data. A backup without a description is looked for in all the
// forms there are, beginning with that of the existing etcd-manager.
func (d Description) open(ctx context.Context, store Objects) (io.ReadCloser, error) {
	if d.Compression != "" {
		return store.Open(ctx, d.Name+"/"+d.DataFile())
	}
	r, first := store.Open(ctx, d.Name+"/"+retention.DataFile)
	if first == nil {
		return r, nil
	}
	for _, form := range [][2]string{{Zstd, ""}, {Gzip, Age}, {Zstd, Age}} {
		if r, err := store.Open(ctx, d.Name+"/"+dataFile(form[0], form[1])); err == nil {
			return r, nil
		}
	}
	return nil, first
}

// ExtractFile is Fetch for the data of a backup in a file of its own: what it
// is compressed and encrypted with is seen from its first bytes. There is no
// description to compare with and no signature, only etcd's digest.
func ExtractFile(path string, w io.Writer, o FetchOptions) (Description, error) {
	f, err := os.Open(path)
	if err != nil {
		return Description{}, fmt.Errorf("extract backup: %w", err)
	}
	defer f.Close()
	d, err := Extract(f, w, o)
	if err != nil {
		return d, fmt.Errorf("extract %s: %w", path, err)
	}
	return d, nil
}

// Extract is ExtractFile for a reader.
func Extract(r io.Reader, w io.Writer, o FetchOptions) (Description, error) {
	if o.NeedsSignature() {
		return Description{}, fmt.Errorf("%w: data in a single file has no signature", ErrSigner)
	}
	return o.unpack(r, func() {}, Description{Facts: Facts{Keys: -1}}, w)
}
