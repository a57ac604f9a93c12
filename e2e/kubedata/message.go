package kubedata

import (
	"encoding/binary"
	"math/rand/v2"

	"google.golang.org/protobuf/encoding/protowire"
)

// A message is a value of Kubernetes that is being written. Its random parts
// come from the object's own source, so that the same object has the same ones.
type message struct {
	b   []byte
	rng *rand.Rand
}

// nest appends a message as a field of another.
func (m *message) nest(field protowire.Number, content func()) {
	m.b = protowire.AppendTag(m.b, field, protowire.BytesType)
	start := len(m.b)
	content()
	size := len(m.b) - start
	// The length stands before the content, and was not known.
	var room [binary.MaxVarintLen64]byte
	head := protowire.AppendVarint(room[:0], uint64(size))
	m.b = append(m.b, head...)
	copy(m.b[start+len(head):], m.b[start:start+size])
	copy(m.b[start:], head)
}

func (m *message) text(field protowire.Number, s string) {
	m.b = protowire.AppendString(protowire.AppendTag(m.b, field, protowire.BytesType), s)
}

func (m *message) number(field protowire.Number, n int64) { m.b = number(m.b, field, n) }

// pair appends an entry of a map of strings.
func (m *message) pair(field protowire.Number, k, v string) {
	m.nest(field, func() {
		m.text(1, k)
		m.text(2, v)
	})
}

const (
	hexDigits = "0123456789abcdef"
	// nameDigits are those of Kubernetes' generated names.
	nameDigits = "bcdfghjklmnpqrstvwxz2456789"
	// base64Digits make secrets, which do not compress well.
	base64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
)

// random returns n random letters out of an alphabet.
func random(rng *rand.Rand, alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[rng.IntN(len(alphabet))]
	}
	return string(b)
}

func uid(rng *rand.Rand) string {
	h := random(rng, hexDigits, 32)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:]
}

// meta appends an ObjectMeta as the first field, with what the controllers say of its fields,
// which is a good part of a real object.
func (m *message) meta(o object, fields string) {
	m.nest(1, func() {
		m.text(1, o.name)
		m.text(2, "")
		m.text(3, o.namespace)
		m.text(4, "")
		m.text(5, uid(m.rng))
		m.number(7, o.generation)
		m.time(8)
		m.pair(11, "app.kubernetes.io/name", o.app)
		m.pair(11, "app.kubernetes.io/instance", o.app+"-production")
		m.pair(11, "app.kubernetes.io/managed-by", "Helm")
		m.pair(11, "pod-template-hash", random(m.rng, nameDigits, 10))
		m.pair(12, "deployment.kubernetes.io/revision", "3")
		m.pair(12, "checksum/config", random(m.rng, hexDigits, 64))
		for _, who := range []string{"kube-controller-manager", "kubelet"} {
			if fields == "" {
				break
			}
			m.nest(17, func() {
				m.text(1, who)
				m.text(2, "Update")
				m.text(3, "v1")
				m.time(4)
				m.text(6, "FieldsV1")
				m.nest(7, func() { m.text(1, fields) })
			})
		}
	})
}

// time appends a time of about 2026.
func (m *message) time(field protowire.Number) {
	m.nest(field, func() { m.number(1, 1780000000+int64(m.rng.IntN(10_000_000))) })
}

// envelope appends what Kubernetes has around each object in protobuf:
// "k8s\x00" and runtime.Unknown.
func (m *message) envelope(apiVersion, kind string, content func()) {
	m.b = append(m.b, "k8s\x00"...)
	m.nest(1, func() {
		m.text(1, apiVersion)
		m.text(2, kind)
	})
	m.nest(2, content)
	m.text(3, "")
	m.text(4, "")
}
