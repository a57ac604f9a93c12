package cloud

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/etcdadm/etcdadm/pkg/store"
)

// A credentialsError says that there are no credentials for a store, which was not asked then.
type credentialsError struct {
	// service is whose they are, next where they may come from.
	service, next string
	// kind is store.ErrDenied, or store.ErrUnreachable where who gives them out did not answer.
	kind, err error
}

func (e *credentialsError) Error() string {
	return "no credentials for " + e.service + ": " + e.err.Error()
}
func (e *credentialsError) Unwrap() []error { return []error{e.kind, e.err} }

// Hint says where credentials may come from.
func (e *credentialsError) Hint() string { return e.next }

// awsCredentials are those of AWS's SDK, with errors that say what they are about.
type awsCredentials struct{ aws.CredentialsProvider }

// Retrieve is that of [aws.CredentialsProvider].
func (c awsCredentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := c.CredentialsProvider.Retrieve(ctx)
	if err == nil || ctx.Err() != nil {
		return found, err
	}
	e := &credentialsError{service: "S3", kind: store.ErrDenied, err: err,
		next: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for a profile of ~/.aws, or give the machine " +
			"a role of AWS"}
	if maySucceed(err) {
		e.kind = store.ErrUnreachable
	}
	return found, e
}

// maySucceed reports whether who gives out credentials may do so later: it did not answer, or cannot
// serve now. Another answer, as that this machine has no role, stays.
func maySucceed(err error) bool {
	var answer *smithyhttp.ResponseError
	var ofAWS *awshttp.ResponseError
	switch {
	case errors.As(err, &ofAWS):
		return busy(ofAWS.HTTPStatusCode())
	case errors.As(err, &answer):
		return busy(answer.HTTPStatusCode())
	}
	return errors.As(err, new(net.Error))
}

func busy(status int) bool {
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
}
