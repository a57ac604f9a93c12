package existing

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// raw passes messages through as bytes.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) ([]byte, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("a message is a %T", v)
	}
	return *b, nil
}

func (raw) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("a message is a %T", v)
	}
	*b = append([]byte(nil), data...)
	return nil
}

// text and message append one field.
func text(b []byte, n protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
}

func message(b []byte, n protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), m)
}

// fields returns the values of a field of a message: of bytes as they are, of a number as
// its one byte.
func fields(b []byte, want protowire.Number) (list [][]byte) {
	for len(b) > 0 {
		n, typ, size := protowire.ConsumeTag(b)
		if size < 0 {
			return list
		}
		b = b[size:]
		var value []byte
		switch typ {
		case protowire.BytesType:
			value, size = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			var v uint64
			v, size = protowire.ConsumeVarint(b)
			value = []byte{byte(v)}
		default:
			size = protowire.ConsumeFieldValue(n, typ, b)
		}
		if size < 0 {
			return list
		}
		if n == want {
			list = append(list, value)
		}
		b = b[size:]
	}
	return list
}

func field(b []byte, n protowire.Number) []byte {
	if list := fields(b, n); len(list) > 0 {
		return list[0]
	}
	return nil
}

// peerInfo is the message PeerInfo: who somebody is, and where.
func peerInfo(name, address string) []byte { return text(text(nil, 1, name), 2, address) }

// enum and flag append one field that is a number; a flag that is not set is left out.
func enum(b []byte, n protowire.Number, v byte) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v))
}

func flag(b []byte, n protowire.Number, set bool) []byte {
	if !set {
		return b
	}
	return enum(b, n, 1)
}

func number(b []byte, n protowire.Number) byte {
	if v := field(b, n); len(v) == 1 {
		return v[0]
	}
	return 0
}

func isSet(b []byte, n protowire.Number) bool { return number(b, n) != 0 }

func texts(b []byte, n protowire.Number) (list []string) {
	for _, v := range fields(b, n) {
		list = append(list, string(v))
	}
	return list
}
