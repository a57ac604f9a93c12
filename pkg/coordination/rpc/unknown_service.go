package rpc

import (
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// unknownService refuses the calls of services that are not served, as gRPC does by itself, and
// receives them: daemons of another kind may use the same port. Nothing of what they send
// is read.
func unknownService(report func(from Caller, address, method string)) grpc.StreamHandler {
	return func(_ any, ss grpc.ServerStream) error {
		ctx := ss.Context()
		method, _ := grpc.MethodFromServerStream(ss)
		from, _ := CallerFrom(ctx)
		address := ""
		if p, ok := peer.FromContext(ctx); ok {
			if address = p.Addr.String(); report != nil {
				if host, _, err := net.SplitHostPort(address); err == nil {
					address = host
				}
				report(from, address, method)
			}
		}
		return status.Errorf(codes.Unimplemented, "unknown service of %s", method)
	}
}
