package rpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/etcdadm/etcdadm/pkg/coordination/internal/nodepb"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
)

// Streams are held to the kind of certificate as calls are, and to the roles that callers say
// where there is none.
func TestStreamsAreForNodesOnly(t *testing.T) {
	ca := newCA(t)
	desc := &grpc.ServiceDesc{ServiceName: "other", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: "Flow", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, s grpc.ServerStream) error {
			if from, ok := rpc.CallerFrom(s.Context()); !ok || from.Name != "a" {
				return status.Errorf(codes.Internal, "called by %s", from)
			}
			if err := s.RecvMsg(&emptypb.Empty{}); errors.Is(err, io.EOF) {
				panic("it ends at once")
			}
			return s.SendMsg(&emptypb.Empty{})
		},
	}}}
	address := listen(t, ca.server("b"), &handler{}, func(s *rpc.Server) { s.RegisterService(desc, nil) })
	plain := listen(t, nil, &handler{}, func(s *rpc.Server) { s.RegisterService(desc, nil) })
	flow := func(o rpc.PoolOptions, address string, send bool) error {
		conn, err := pool(t, o).Conn("b", address)
		if err != nil {
			t.Fatal(err)
		}
		s, err := conn.NewStream(short(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/other/Flow")
		if err != nil {
			return err
		}
		if send {
			if err := s.SendMsg(&emptypb.Empty{}); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
		} else if err := s.CloseSend(); err != nil {
			return err
		}
		return s.RecvMsg(&emptypb.Empty{})
	}
	for who, o := range map[string]rpc.PoolOptions{"with TLS": ca.client(clientPrefix + "a"), "without": {Self: "a"}} {
		to := map[string]string{"with TLS": address, "without": plain}[who]
		if err := flow(o, to, true); err != nil {
			t.Errorf("a node %s: %v", who, err)
		}
		if err := flow(o, to, false); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "panic") {
			t.Errorf("a panic %s: %v", who, err)
		}
	}
	for who, err := range map[string]error{
		"an operator":             flow(ca.client("operator"), address, true),
		"a reader":                flow(ca.client("read-only"), address, true),
		"an operator without TLS": flow(rpc.PoolOptions{Self: "eve", Role: rpc.RoleOperator}, plain, true),
	} {
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", who, err)
		}
	}
}

// halfway serves an answer that breaks off.
type halfway struct {
	nodepb.UnimplementedNodeServer
}

func (halfway) Observe(context.Context, *nodepb.ObserveRequest) (*nodepb.ObserveResponse, error) {
	return &nodepb.ObserveResponse{Answer: []byte(`{"Node":{"name":"b","reachable":true`)}, nil
}

// Half an answer is none: what is missing in it would be taken for a node without data.
func TestHalfAnAnswerIsNone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	nodepb.RegisterNodeServer(s, halfway{})
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	_, err = pool(t, rpc.PoolOptions{Self: "a"}).Observe(short(t), rpc.Node{Name: "b", Address: l.Addr().String()}, "main")
	if err == nil || !strings.Contains(err.Error(), "read the answer") {
		t.Errorf("error %v", err)
	}
}
