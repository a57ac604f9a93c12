package volumes

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A cloud that does not answer a question has it asked again when its time is over, with
// growing pauses. What is waited for is reported meanwhile, and stays reported until there is an
// answer, which may take as long as one question may.
func TestACloudThatAnswersSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begins, ends []time.Time
		var reported []string
		got, err := Retry(t.Context(), quiet(), func(why string) { reported = append(reported, why) },
			func(ctx context.Context) (string, error) {
				begins = append(begins, time.Now())
				defer func() { ends = append(ends, time.Now()) }()
				late := time.Hour
				if len(begins) > 6 {
					late = callLimit - time.Second
				}
				select {
				case <-ctx.Done():
					return "", ctx.Err()
				case <-time.After(late):
					return "10.0.0.1", nil
				}
			})
		if err != nil || got != "10.0.0.1" || len(begins) != 7 {
			t.Fatalf("%q, %v after %d questions", got, err, len(begins))
		}
		for i, begin := range begins[1:] {
			if took := ends[i].Sub(begins[i]); took != callLimit {
				t.Errorf("question %d took %s", i+1, took)
			}
			least := min(firstPause<<i, maxRetryPause) / 2
			if pause := begin.Sub(ends[i]); pause < least || pause > 3*least {
				t.Errorf("the pause after question %d is %s, want %s to %s", i+1, pause, least, 3*least)
			}
		}
		want := append(slices.Repeat([]string{context.DeadlineExceeded.Error()}, 6), "")
		if !slices.Equal(reported, want) {
			t.Errorf("reported %q", reported)
		}
	})
}

// Metadata that accept a connection and say nothing, or begin an answer and do not end it,
// are given up in time: sooner than the question is, so that the error says who it was.
func TestMetadataThatHang(t *testing.T) {
	t.Parallel()
	unreachable, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unreachable.Close() })
	half := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "i-0")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(half.Close)
	for _, url := range []string{"http://" + unreachable.Addr().String(), half.URL} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), callLimit)
			defer cancel()
			text, err := Metadata(ctx, Local(), http.MethodGet, url+"/instance-id")
			var timeout net.Error
			if err == nil || text != "" || ctx.Err() != nil || !errors.As(err, &timeout) || !timeout.Timeout() ||
				!strings.Contains(err.Error(), url) {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}
