package store

import (
	"context"
	"errors"
	"io"
	"net/url"
	"sync"

	"gocloud.dev/blob"
)

// A Driver reads the location of a bucket, SCHEME://BUCKET/PATH?OPTIONS, and
// returns what opens it. It makes no request; an error says what is wrong with
// the location or the environment.
type Driver func(location *url.URL) (Dial, error)

// A Dial opens a bucket. It is called before the store's first request, and
// again if it failed. The context bounds the dialling, not the bucket's life.
type Dial func(ctx context.Context) (*Bucket, error)

// A Bucket is what a driver opens. Only Blobs must be set.
type Bucket struct {
	// Blobs lists and reads, and does what the other fields do not do.
	Blobs *blob.Bucket
	// Dir is the "directory" in the bucket that holds the store, such as a/b.
	Dir string
	// Server names the server, for people; empty is for one that goes without saying.
	Server string
	// Failing, if it is set, returns why a request failed a moment ago that is tried again, empty for none.
	Failing func() string
	// Write stores what r holds until its end, or nothing at all. It may retry,
	// but not read r twice. An error of r must be in the one it returns.
	Write func(ctx context.Context, key string, r io.Reader, o WriteOptions) error
	// Remove deletes an object. That there is none is success, or ErrAbsent.
	Remove func(ctx context.Context, key string) error
	// Explain returns an error of the store's as one of the kinds of this package,
	// ErrAbsent, ErrDenied or ErrUnreachable, with what a person can do about it, or
	// nil if it does not know better than gocloud.dev's error codes.
	Explain func(error) error
	// VerifyConditional says that the server may ignore the condition of a conditional
	// write. It is then tried before control objects are written.
	VerifyConditional bool
	// Unconditional says that the server has no conditional writes, which the
	// operator has accepted: such a store holds backups, and no control objects.
	Unconditional bool
}

// SegmentsDir is what a driver puts behind a key for the keys of the segments that
// the object is made of, if it needs such: they are deleted with the backup that
// the object belongs to.
const SegmentsDir = ".segments/"

// WriteOptions say how Bucket.Write stores an object.
type WriteOptions struct {
	// OnlyAbsent asks for the write to fail with ErrTaken if the key is taken.
	OnlyAbsent bool
	// Size is the number of bytes that follow, -1 if that is not known.
	Size int64
	// Metadata is stored with the object.
	Metadata map[string]string
}

// ErrTaken is returned by Bucket.Write when it was asked to write only if the key
// is free. Callers of a Store do not see it.
var ErrTaken = errors.New("key is taken")

// ErrIncomplete is wrapped by an error of Bucket.Write after which what is there, if
// anything, is not what was written, whoever it says has written it.
var ErrIncomplete = errors.New("the object is not complete")

// drivers is the one table of schemes. file:// and mem:// are not in it.
var drivers sync.Map

// Register makes Open use a driver for a scheme, such as "s3". Packages of
// drivers call it in their init; the last call for a scheme counts.
func Register(scheme string, d Driver) { drivers.Store(scheme, d) }
