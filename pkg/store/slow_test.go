package store

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Each reason is reported once, also where they alternate, and of many only the first ones.
func TestASlowStoreSaysEachReasonOnce(t *testing.T) {
	why := ""
	var said []string
	s := &slowness{
		after: time.Second, failing: func() string { return why }, report: func(why string) { said = append(said, why) },
	}
	s.look(time.Millisecond)
	for range 3 {
		for _, why = range []string{"", "10.0.0.1: refused", "10.0.0.2: refused"} {
			s.look(time.Minute)
		}
	}
	if want := []string{"", "10.0.0.1: refused", "10.0.0.2: refused"}; !slices.Equal(said, want) {
		t.Errorf("it says %q, want %q", said, want)
	}
	for i := range 100 {
		why = fmt.Sprint("reason ", i)
		s.look(time.Minute)
	}
	if len(said) != maxReasons {
		t.Errorf("%d reasons are reported", len(said))
	}
}

func TestSteady(t *testing.T) {
	for text, want := range map[string]string{
		"operation error S3: GetObject, https response error StatusCode: 403, RequestID: 7GZ9, HostID: a/b+c==, api error " +
			"AccessDenied: no": "operation error S3: GetObject, https response error StatusCode: 403, api error AccessDenied: no",
		"AuthorizationFailure: denied\nRequestId:0a1b-22\nTime:2026-11-27T23:30:00.1234567Z": "AuthorizationFailure: denied",
		"read tcp 10.0.0.9:41234->10.0.0.1:443: i/o timeout":                                 "read tcp 10.0.0.1:443: i/o timeout",
		"list control/: store denies access: status 403":                                     "list control/: store denies access: status 403",
	} {
		if got := Steady(text); got != want {
			t.Errorf("%q\nis   %q\nwant %q", text, got, want)
		}
	}
}
