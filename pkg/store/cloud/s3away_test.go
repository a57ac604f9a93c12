package cloud

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// The error of a server that does not answer names it, and says nothing of an answer.
func TestS3ServerThatDoesNotAnswer(t *testing.T) {
	clean(t)
	t.Setenv("S3_ACCESS_KEY_ID", "key")
	t.Setenv("S3_SECRET_ACCESS_KEY", "secret")
	unreachable, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer unreachable.Close()
	for _, endpoint := range []string{"http://" + unreachable.Addr().String(), "http://" + testport.Address(t)} {
		t.Setenv("S3_ENDPOINT", endpoint)
		s, err := store.Open(t.Context(), "s3://bucket/dir")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err = s.Poll(ctx)
		if !errors.Is(err, store.ErrUnreachable) || !strings.Contains(err.Error(), "the S3 server "+endpoint+": ") ||
			regexp.MustCompile("RequestID|StatusCode").MatchString(err.Error()) {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// Why a try failed is the same text each time that it fails so.
func TestWhyATryFailedHasNoIDOfIt(t *testing.T) {
	for _, err := range []error{
		errors.New("https response error StatusCode: 503, RequestID: 7GZ9, HostID: a/b==, not XML"),
		errors.New("https response error StatusCode: 503, RequestID: 8HA0, HostID: c/d==, not XML"),
	} {
		if got := shortly(err); got != "https response error StatusCode: 503, not XML" {
			t.Errorf("%v: %q", err, got)
		}
	}
}
