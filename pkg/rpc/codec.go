package rpc

import (
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/encoding"
)

// jsonName is the content subtype of our messages: application/grpc+json. The
// default, proto, stays what it is for other services of the same server.
const jsonName = "json"

type jsonCodec struct{}

// gRPC finds codecs in a list of the process, which must be complete before
// the first call.
var _ = register(jsonCodec{})

func register(c encoding.Codec) struct{} {
	encoding.RegisterCodec(c)
	return struct{}{}
}

func (jsonCodec) Name() string { return jsonName }

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
