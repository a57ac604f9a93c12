package gossip

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/internal/nodepb"
)

// NameKey is the metadata in which a caller says its name. With TLS its
// certificate has to say the same.
const NameKey = "etcdadm-name"

// frameCodec is named on every stream, so that a connection whose calls use
// another codec by default carries frames too.
const frameCodec = "proto"

// Packets takes packets until the caller ends the stream. It sends
// nothing; its end shows the caller that all packets have come.
func (t *transport) Packets(s nodepb.Gossip_PacketsServer) error {
	from, err := t.identify(s.Context())
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	// A receive cannot be interrupted but by the end of this function.
	if !t.start(func() { done <- t.receivePackets(s, from) }) {
		return status.Error(codes.Unavailable, errClosed.Error())
	}
	select {
	case err := <-done:
		return err
	case <-t.ctx.Done():
		return status.Error(codes.Unavailable, errClosed.Error())
	}
}

// Stream hands one connection to memberlist and stays until it is closed.
func (t *transport) Stream(s nodepb.Gossip_StreamServer) error {
	from, err := t.identify(s.Context())
	if err != nil {
		return err
	}
	t.seen(from)
	c := newConn(addr(from))
	defer c.end(errClosed)
	life := time.NewTimer(streamTimeout)
	defer life.Stop()
	select {
	case t.streamCh <- c:
	case <-t.ctx.Done():
		return status.Error(codes.Unavailable, errClosed.Error())
	case <-s.Context().Done():
		return s.Context().Err()
	}
	sent := make(chan struct{})
	if !t.start(func() {
		defer close(sent)
		t.running.Go(func() { c.receive(s) })
		c.send(s)
	}) {
		return status.Error(codes.Unavailable, errClosed.Error())
	}
	select {
	case <-sent:
		return nil
	case <-life.C:
		return status.Errorf(codes.DeadlineExceeded, "the stream is older than %v", streamTimeout)
	case <-t.ctx.Done():
		return status.Error(codes.Unavailable, errClosed.Error())
	case <-s.Context().Done():
		return s.Context().Err()
	}
}

// identify returns who calls. The name that the caller says must be the one
// that it proved.
func (t *transport) identify(ctx context.Context) (cluster.NodeName, error) {
	proved, err := t.o.Caller(ctx)
	if err != nil {
		return "", status.Errorf(codes.Unauthenticated, "%s cannot identify the caller: %v", t.o.Name, err)
	}
	md, _ := metadata.FromIncomingContext(ctx)
	said := md.Get(NameKey)
	if len(said) == 0 {
		return "", status.Errorf(codes.PermissionDenied, "%s does not say its name", proved)
	}
	for _, name := range said {
		if cluster.NodeName(name) != proved {
			return "", status.Errorf(codes.PermissionDenied, "%s says that it is %q", proved, name)
		}
	}
	return proved, nil
}

// A stream is either end of a gRPC stream of frames.
type stream interface {
	Send(frame *wrapperspb.BytesValue) error
	Recv() (*wrapperspb.BytesValue, error)
}

// transmit sends one frame.
func transmit(s stream, b []byte) error {
	return s.Send(wrapperspb.Bytes(b))
}

// receive returns the next frame, io.EOF after the last.
func receive(s stream) ([]byte, error) {
	frame, err := s.Recv()
	return frame.GetValue(), err
}
