package backup

import (
	"errors"
	"fmt"

	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
)

// What can be wrong with a backup. Errors of the store are handed through as
// they are.
var (
	// ErrDamaged says that a backup is not what was taken: cut off, altered, or
	// put together of parts of others.
	ErrDamaged = snapshot.ErrDamaged
	// ErrKey says that no key was given that decrypts it.
	ErrKey = errors.New("backup is encrypted, and none of the given keys decrypts it")
	// ErrSigner says that a trusted signer's signature was asked for, and it has
	// none, or another's, or a wrong one.
	ErrSigner = errors.New("backup is not signed by a trusted signer")
	// ErrFormat says that a later version of this project wrote it, in a way that
	// this one would misread.
	ErrFormat = errors.New("backup has a later format")
)

func damagedf(form string, args ...any) error {
	return fmt.Errorf("%w: "+form, append([]any{ErrDamaged}, args...)...)
}
