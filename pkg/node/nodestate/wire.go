package nodestate

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// etcdState is the message etcd.EtcdState, which the existing etcd-manager
// keeps in the file state. The numbers in the comments are its field numbers.
type etcdState struct {
	newCluster  bool         // 1
	cluster     *etcdCluster // 2
	version     string       // 3
	quarantined bool         // 4
}

// etcdCluster is the message etcd.EtcdCluster. Its field 1, the desired size,
// is never set by the existing etcd-manager in this file.
type etcdCluster struct {
	token string     // 5
	nodes []etcdNode // 7
}

// etcdNode is the message etcd.EtcdNode.
type etcdNode struct {
	Name           string   `json:"name"`                     // 1
	PeerURLs       []string `json:"peerURLs,omitempty"`       // 2
	ClientURLs     []string `json:"clientURLs,omitempty"`     // 3
	QuarantineURLs []string `json:"quarantineURLs,omitempty"` // 4
	TLS            bool     `json:"tls,omitempty"`            // 5
}

// encode writes the message as protobuf does: fields in the order of their
// numbers, none that has its zero value. The empty message has no bytes.
func (s etcdState) encode() []byte {
	var b []byte
	b = appendBool(b, 1, s.newCluster)
	if s.cluster != nil {
		b = appendBytes(b, 2, s.cluster.encode())
	}
	b = appendStrings(b, 3, s.version)
	return appendBool(b, 4, s.quarantined)
}

func (c etcdCluster) encode() []byte {
	b := appendStrings(nil, 5, c.token)
	for _, n := range c.nodes {
		b = appendBytes(b, 7, n.encode())
	}
	return b
}

func (n etcdNode) encode() []byte {
	b := appendStrings(nil, 1, n.Name)
	b = appendStrings(b, 2, n.PeerURLs...)
	b = appendStrings(b, 3, n.ClientURLs...)
	b = appendStrings(b, 4, n.QuarantineURLs...)
	return appendBool(b, 5, n.TLS)
}

func appendBool(b []byte, num protowire.Number, v bool) []byte {
	if !v {
		return b
	}
	b = protowire.AppendTag(b, num, protowire.VarintType)
	return protowire.AppendVarint(b, 1)
}

func appendStrings(b []byte, num protowire.Number, values ...string) []byte {
	for _, v := range values {
		if v != "" {
			b = appendBytes(b, num, []byte(v))
		}
	}
	return b
}

func appendBytes(b []byte, num protowire.Number, v []byte) []byte {
	b = protowire.AppendTag(b, num, protowire.BytesType)
	return protowire.AppendBytes(b, v)
}

// decodeState reads what encode, or the existing etcd-manager, wrote. Fields
// that it does not know are skipped, but a message of nothing else is refused:
// almost any text is a protobuf message of unknown fields.
func decodeState(b []byte) (etcdState, error) {
	var s etcdState
	known := false
	err := eachField(b, func(f field) (err error) {
		known = known || f.num <= 4
		switch f.num {
		case 1:
			s.newCluster, err = f.bool()
		case 2:
			if s.cluster == nil {
				s.cluster = &etcdCluster{}
			}
			err = s.cluster.decode(f)
		case 3:
			s.version, err = f.string()
		case 4:
			s.quarantined, err = f.bool()
		}
		return err
	})
	if err == nil && len(b) > 0 && !known {
		err = errors.New("it has none of the fields of an EtcdState message")
	}
	return s, err
}

func (c *etcdCluster) decode(f field) error {
	b, err := f.message()
	if err != nil {
		return err
	}
	return eachField(b, func(f field) (err error) {
		switch f.num {
		case 5:
			c.token, err = f.string()
		case 7:
			var n etcdNode
			err = n.decode(f)
			c.nodes = append(c.nodes, n)
		}
		return err
	})
}

func (n *etcdNode) decode(f field) error {
	b, err := f.message()
	if err != nil {
		return err
	}
	return eachField(b, func(f field) (err error) {
		switch f.num {
		case 1:
			n.Name, err = f.string()
		case 2:
			n.PeerURLs, err = f.append(n.PeerURLs)
		case 3:
			n.ClientURLs, err = f.append(n.ClientURLs)
		case 4:
			n.QuarantineURLs, err = f.append(n.QuarantineURLs)
		case 5:
			n.TLS, err = f.bool()
		}
		return err
	})
}

// A field is one field of a message, with its value still encoded.
type field struct {
	num   protowire.Number
	typ   protowire.Type
	value []byte
}

// eachField calls f for each field of the message b.
func eachField(b []byte, f func(field) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		n = protowire.ConsumeFieldValue(num, typ, b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(field{num: num, typ: typ, value: b[:n]}); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (f field) message() ([]byte, error) {
	if f.typ != protowire.BytesType {
		return nil, fmt.Errorf("field %d has the wire type %d", f.num, f.typ)
	}
	b, _ := protowire.ConsumeBytes(f.value)
	return b, nil
}

func (f field) string() (string, error) {
	b, err := f.message()
	if err == nil && !utf8.Valid(b) {
		err = fmt.Errorf("field %d is not UTF-8 text", f.num)
	}
	return string(b), err
}

func (f field) append(to []string) ([]string, error) {
	s, err := f.string()
	return append(to, s), err
}

func (f field) bool() (bool, error) {
	if f.typ != protowire.VarintType {
		return false, fmt.Errorf("field %d has the wire type %d", f.num, f.typ)
	}
	v, _ := protowire.ConsumeVarint(f.value)
	return v != 0, nil
}
