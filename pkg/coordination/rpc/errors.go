package rpc

import (
	"context"
	"errors"
	"net"
	"slices"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/internal/netreason"
)

// A Kind says what an error means for the caller. The list is closed.
type Kind string

// The kinds.
const (
	// Invalid: the request makes no sense, whatever the state of the world.
	Invalid Kind = "invalid"
	// Stale: the request was right for another world, or an earlier term.
	Stale Kind = "stale"
	// Unreachable: something did not answer in time. The request may have been
	// carried out.
	Unreachable Kind = "unreachable"
	// Refused: the caller may not do this, or it would be unsafe.
	Refused Kind = "refused"
	// Corrupt: data is damaged.
	Corrupt Kind = "corrupt"
	// Held: nothing safe to do is known.
	Held Kind = "held"
	// Internal: anything else.
	Internal Kind = "internal"
)

var kinds = []Kind{Invalid, Stale, Unreachable, Refused, Corrupt, Held, Internal}

// ErrUnimplemented is wrapped by the error of a call that the other side does not
// serve.
var ErrUnimplemented = errors.New("the node runs an older version of etcd-manager, which does not serve this call")

// domain marks the status details that are ours.
const domain = "etcdadm"

// An Error is an error with a kind. It arrives at the caller as it was made.
type Error struct {
	Kind Kind
	Text string
	// Hint is what to do about it, empty where nothing is known.
	Hint string
	// Cluster is the name of the node's cluster, where the node refuses because the
	// caller asked for another one.
	Cluster string

	cause error
}

func (e *Error) Error() string { return e.Text }

// OtherCluster returns Cluster. It is for callers that do not know this package.
func (e *Error) OtherCluster() string { return e.Cluster }

// Unwrap returns the context's error where a call ended with its context, and
// [ErrUnimplemented] where nobody serves it, so that callers need not know about
// gRPC.
func (e *Error) Unwrap() error { return e.cause }

// KindOf returns the kind of err, empty for nil. Besides [*Error] it knows the
// typed errors of the decision packages, errors of waiting and of the network,
// and errors with a method ErrorKind() string that returns one of the kinds.
func KindOf(err error) Kind {
	var (
		own    *Error
		named  interface{ ErrorKind() string }
		stale  *plan.StaleError
		over   *lease.StaleError
		unsafe *plan.UnsafeError
		remote net.Error
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &own):
		return own.Kind
	case errors.As(err, &named) && slices.Contains(kinds, Kind(named.ErrorKind())):
		return Kind(named.ErrorKind())
	case errors.As(err, &stale), errors.As(err, &over):
		return Stale
	case errors.As(err, &unsafe):
		return Refused
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.As(err, &remote):
		return Unreachable
	}
	return Internal
}

// HintOf returns what to do about err, empty where nothing is known. Errors
// have a hint as [*Error] does, or by a method Hint() string.
func HintOf(err error) string {
	var own *Error
	if errors.As(err, &own) && own.Hint != "" {
		return own.Hint
	}
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		return hinted.Hint()
	}
	return ""
}

var statusCodes = map[Kind]codes.Code{
	Invalid:     codes.InvalidArgument,
	Stale:       codes.FailedPrecondition,
	Unreachable: codes.Unavailable,
	Refused:     codes.PermissionDenied,
	Corrupt:     codes.DataLoss,
	Held:        codes.Aborted,
	Internal:    codes.Internal,
}

// toStatus turns a handler's error into what goes over the wire.
func toStatus(err error) error {
	kind := KindOf(err)
	s := status.New(statusCodes[kind], err.Error())
	info := &errdetails.ErrorInfo{Reason: string(kind), Domain: domain}
	info.Metadata = map[string]string{}
	if hint := HintOf(err); hint != "" {
		info.Metadata["hint"] = hint
	}
	var own *Error
	if errors.As(err, &own) && own.Cluster != "" {
		info.Metadata["cluster"] = own.Cluster
	}
	if detailed, derr := s.WithDetails(info); derr == nil {
		s = detailed
	}
	return s.Err()
}

// fromStatus turns what came over the wire, in a call whose context was ctx,
// into an [*Error].
func fromStatus(ctx context.Context, err error) error {
	s := status.Convert(err)
	e := &Error{Kind: Internal, Text: netreason.Plain(s.Message()), cause: ctx.Err()}
	for _, d := range s.Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if ok && info.Domain == domain && slices.Contains(kinds, Kind(info.Reason)) {
			e.Kind, e.Hint, e.Cluster = Kind(info.Reason), info.Metadata["hint"], info.Metadata["cluster"]
			return e
		}
	}
	switch s.Code() {
	case codes.Unavailable:
		e.Kind = Unreachable
	case codes.Canceled, codes.DeadlineExceeded:
		e.Kind = Unreachable
		if e.cause == nil { // the server's timer was first
			e.cause = context.DeadlineExceeded
		}
	case codes.PermissionDenied, codes.Unauthenticated:
		e.Kind = Refused
	case codes.Unimplemented:
		e.Kind, e.Text, e.cause = Invalid, ErrUnimplemented.Error()+": "+e.Text, ErrUnimplemented
	case codes.InvalidArgument, codes.ResourceExhausted:
		e.Kind = Invalid
	}
	return e
}
