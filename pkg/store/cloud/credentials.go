package cloud

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/etcdadm/etcdadm/pkg/store"
)

// A credentialsError says that there are no credentials for a store. It is one of [store.ErrUnreachable]:
// the store was not asked, so it has denied nothing, and who gives credentials out may do so later.
type credentialsError struct {
	// service is whose they are, next where they may come from.
	service, next string
	err           error
}

func (e *credentialsError) Error() string {
	return "no credentials for " + e.service + ": " + e.err.Error()
}
func (e *credentialsError) Unwrap() []error { return []error{store.ErrUnreachable, e.err} }

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
	return found, &credentialsError{service: "S3", err: err,
		next: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for a profile of ~/.aws, or give the machine " +
			"a role of AWS"}
}
