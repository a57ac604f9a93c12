package observe

import (
	"crypto/rand"
	"encoding/base64"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// NewToken returns a fresh random cluster token: 16 random bytes in 22
// characters, the form of the existing tool's cluster tokens.
func NewToken() cluster.Token {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	return cluster.Token(base64.RawURLEncoding.EncodeToString(b[:]))
}
