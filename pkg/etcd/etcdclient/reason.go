package etcdclient

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// Reason is why a call to an endpoint failed: its kind, and the reason in
// words. Where no answer came, which is all that gRPC says, it connects once
// more to find out why, which takes milliseconds as a rule, and ends with ctx.
func Reason(ctx context.Context, endpoint string, config *tls.Config, err error) (cluster.Cause, string) {
	text := clean(err)
	if Denied(err) {
		return cluster.CauseAuth, "etcd denies access: " + text
	}
	if !Unanswered(err) {
		return cluster.CauseOther, text
	}
	var why *EndpointError
	if errors.As(Probe(ctx, endpoint, config), &why) {
		if why.Cause == "" {
			why.Cause = cluster.CauseOther
		}
		return why.Cause, why.Error()
	}
	return cluster.CauseTimeout, "it did not answer in time"
}

// Denied reports whether etcd answered that this client may not ask:
// authentication is on, and the client is of no user, or of one without the
// rights.
func Denied(err error) bool {
	for _, denial := range []error{
		rpctypes.ErrUserEmpty, rpctypes.ErrPermissionDenied, rpctypes.ErrPermissionNotGranted, rpctypes.ErrUserNotFound,
		rpctypes.ErrInvalidAuthToken, rpctypes.ErrInvalidAuthMgmt, rpctypes.ErrAuthFailed,
	} {
		if errors.Is(err, denial) {
			return true
		}
	}
	// A stream of etcd 3.5 has the error of the store, without a code.
	text := clean(err)
	return code(err) != codes.OK &&
		about(text, "auth: user name is empty", "auth: permission denied", "auth: user not found")
}

func about(text string, parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}

// code returns the status of a call, OK where err has none.
func code(err error) codes.Code {
	var answer rpctypes.EtcdError
	if errors.As(err, &answer) {
		return answer.Code()
	}
	var s interface{ GRPCStatus() *status.Status }
	if errors.As(err, &s) {
		return s.GRPCStatus().Code()
	}
	return codes.OK
}

// clean returns the text of err without what gRPC puts around it.
func clean(err error) string {
	var answer rpctypes.EtcdError
	if errors.As(err, &answer) {
		return answer.Error()
	}
	var s interface{ GRPCStatus() *status.Status }
	if errors.As(err, &s) {
		return s.GRPCStatus().Message()
	}
	return err.Error()
}

// A readAnswer is how a member answered a read through the quorum, and why it
// denied it, "" where it did not.
type readAnswer struct {
	read   cluster.Read
	denied string
}

// read asks the member for a key through the quorum. A member that denies it has
// answered: it serves those who may ask.
func (c *Client) read(ctx context.Context) readAnswer {
	_, err := c.c.Get(ctx, healthKey, clientv3.WithKeysOnly())
	switch {
	case err == nil:
		return readAnswer{read: cluster.ReadServed}
	case Denied(err):
		answer := readAnswer{read: cluster.ReadLate, denied: clean(err)}
		if answersByRefusing(err) {
			answer.read = cluster.ReadServed
		}
		return answer
	}
	return readAnswer{read: cluster.ReadLate}
}

// ReadThrough waits until the member has applied all that the cluster has
// acknowledged so far: what is read of its database from then on has it.
func (c *Client) ReadThrough(ctx context.Context) error { return c.Healthy(ctx) }
