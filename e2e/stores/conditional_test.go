package stores

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/etcdadm/etcdadm/e2e/stores/servers"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/store/storetest"
)

// On a server that ignores conditions no control object is created.
func TestConditionIsIgnored(t *testing.T) {
	server, proxy := behindProxy(t)
	ctx := t.Context()
	proxy.Disturb(func(_ http.ResponseWriter, r *http.Request, _ http.HandlerFunc) bool {
		// The header is signed. Without an object its condition always holds.
		if key, ok := strings.CutPrefix(r.URL.Path, "/backups/"); ok && r.Header.Get("If-None-Match") != "" {
			if _, err := server.Client().DeleteObject(ctx, &s3.DeleteObjectInput{
				Bucket: &server.Bucket, Key: &key,
			}); err != nil {
				t.Error(err)
			}
		}
		return false
	})
	s := open(t, "s3://backups/x")
	for range 2 {
		made, err := s.Create(ctx, "control/incarnations/1", []byte("{}"))
		if made || !errors.Is(err, store.ErrDenied) || !strings.Contains(err.Error(), "If-None-Match") {
			t.Errorf("created: %t, %v", made, err)
		}
		if there, err := s.Exists(ctx, "control/incarnations/1"); there || err != nil {
			t.Errorf("it is there: %t, %v", there, err)
		}
	}
	is(t, s.MarkCreated(ctx, time.Now()), store.ErrDenied)
	proxy.Disturb(nil)
	if made, err := s.Create(ctx, "control/incarnations/1", []byte("{}")); !made || err != nil {
		t.Errorf("on a server that has learned it: %t, %v", made, err)
	}
	before := s.Requests()
	if made, err := s.Create(ctx, "control/incarnations/2", []byte("{}")); !made || err != nil ||
		s.Requests()-before != 1 {
		t.Errorf("once it is known, a creation is %d requests: %t, %v", s.Requests()-before, made, err)
	}
	if v, err := s.Poll(ctx); err != nil || len(v.Incarnations) != 0 || len(v.Problems) != 2 {
		t.Errorf("a poll shows %+v, %v", v, err)
	}
}

// A server without conditional writes says so, and holds backups if the
// operator accepts it.
func TestConditionIsNotImplemented(t *testing.T) {
	_, proxy := behindProxy(t)
	ctx := t.Context()
	proxy.Disturb(func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) bool {
		if r.Header.Get("If-None-Match") == "" {
			return false
		}
		servers.Answer(w, http.StatusNotImplemented, "NotImplemented")
		return true
	})
	s := open(t, "s3://backups/x")
	_, createErr := s.Create(ctx, "control/a", nil)
	_, uploadErr := s.Upload(ctx, "b", storetest.Content(9<<20))
	for _, err := range []error{createErr, uploadErr} {
		if !errors.Is(err, store.ErrDenied) || !strings.Contains(err.Error(), "conditional_writes=off") {
			t.Errorf("%v", err)
		}
	}
	off := open(t, "s3://backups/x?conditional_writes=off")
	for _, want := range []bool{true, false} {
		if made, err := off.Upload(ctx, "b", storetest.Content(9<<20)); made != want || err != nil {
			t.Errorf("upload: %t, %v, want %t", made, err, want)
		}
	}
	if made, err := off.Create(ctx, "control/a", nil); made || !errors.Is(err, store.ErrDenied) {
		t.Errorf("a control object is created: %t, %v", made, err)
	}
}

// Two conditional writes at the same time may have to try again.
func TestConditionConflicts(t *testing.T) {
	_, proxy := behindProxy(t)
	conflicts := 2
	proxy.Disturb(func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) bool {
		if r.Header.Get("If-None-Match") == "" || conflicts == 0 {
			return false
		}
		conflicts--
		servers.Answer(w, http.StatusConflict, "ConditionalRequestConflict")
		return true
	})
	if made, err := open(t, "s3://backups/x").Create(t.Context(), "a", nil); !made || err != nil || conflicts > 0 {
		t.Errorf("%t, %v, %d conflicts are left", made, err, conflicts)
	}
}

// In a bucket that is not there nothing is absent.
func TestNoBucket(t *testing.T) {
	amazon, google := servers.StartS3(t), servers.StartGCS(t)
	amazon.Bucket, google.Bucket = "other", "other"
	for _, location := range []string{amazon.Location("x"), google.Location("x")} {
		s := open(t, location)
		_, pollErr := s.Poll(t.Context())
		_, backupsErr := s.Backups(t.Context())
		_, createErr := s.Create(t.Context(), "a", nil)
		errs := []error{pollErr, backupsErr, createErr}
		if strings.HasPrefix(location, "s3") {
			_, getErr := s.Created(t.Context())
			errs = append(errs, getErr)
		}
		for i, err := range errs {
			if !errors.Is(err, store.ErrUnreachable) || errors.Is(err, store.ErrAbsent) {
				t.Errorf("%s: call %d: %v", location, i, err)
			}
		}
	}
}

// GCS answers 403 also for what is not there; it must not be taken for absent.
func TestDeniedByGCS(t *testing.T) {
	server := servers.StartGCS(t)
	proxy := servers.StartProxy(t, "http://"+server.Host)
	t.Setenv("STORAGE_EMULATOR_HOST", proxy.Host)
	s, ctx := open(t, server.Location("x")), t.Context()
	if err := s.MarkCreated(ctx, time.Now()); err != nil {
		t.Fatal(err)
	}
	proxy.Disturb(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"error":{"code":403,"message":"by the proxy"}}`))
		return true
	})
	_, getErr := s.Created(ctx)
	_, pollErr := s.Poll(ctx)
	_, existsErr := s.Exists(ctx, "no/object")
	_, createErr := s.Create(ctx, "b", nil)
	_, uploadErr := s.Upload(ctx, "c", storetest.Content(9<<20))
	for what, err := range map[string]error{
		"get": getErr, "poll": pollErr, "exists": existsErr, "create": createErr, "upload": uploadErr,
		"put": s.Put(ctx, "a", nil), "delete": s.Delete(ctx, "a"),
	} {
		if !errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrAbsent) || errors.Is(err, store.ErrUnreachable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	proxy.Disturb(nil)
	throttled := 3
	proxy.Disturb(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) bool {
		if throttled--; throttled < 0 {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	if made, err := s.Create(ctx, "d", nil); !made || err != nil {
		t.Errorf("a throttled creation: %t, %v", made, err)
	}
}
