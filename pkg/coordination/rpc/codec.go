package rpc

import (
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/encoding"
)

// codec is the encoding of our messages. gRPC finds codecs in a list of the
// process, which must be complete before the first call.
var codec = registered(jsonCodec{})

func registered(c encoding.Codec) encoding.Codec {
	encoding.RegisterCodec(c)
	return c
}

type jsonCodec struct{}

// Name is the content subtype: application/grpc+json. The default, proto, stays
// what it is for other services of the same server.
func (jsonCodec) Name() string { return "json" }

func (jsonCodec) Marshal(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write message: %w", err)
	}
	return b, nil
}

// Unmarshal ignores unknown fields: a newer daemon may send more.
func (jsonCodec) Unmarshal(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("read message: %w", err)
	}
	return nil
}
