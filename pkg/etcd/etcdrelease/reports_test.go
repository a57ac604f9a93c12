package etcdrelease

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// unansweringServer is a listener that takes connections and never answers.
func unansweringServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// Who downloads by hand sees at once from where, and why it does not go on as soon as that is known:
// a reason that stays is not said again.
func TestADownloadReportsFromWhereAndWhyATryFailed(t *testing.T) {
	var said []string
	reported := func(o *Options) {
		said = nil
		o.Fetching = func(url string) { said = append(said, "from "+url) }
		o.Failed = func(text string) { said = append(said, text) }
	}
	at := unansweringServer(t)
	o := local(t, "3.6.99")
	o.Sources.ReleaseURL, o.Sources.SHA256 = "https://user:secret@"+at, strings.Repeat("0", 64)
	o.ConnectTimeout = 20 * time.Millisecond
	reported(&o)
	_, _, err := Download(soon(t), o)
	want := []string{
		"from https://user:xxxxx@" + at + "/v3.6.99/" + o.archiveName(), "no answer from " + at + " in 20ms",
	}
	if !slices.Equal(said, want) || err == nil || !strings.Contains(err.Error(), "(tried 3 times)") || Overloaded(err) {
		t.Errorf("it reports %q, want %q; %v", said, want, err)
	}

	s := newSite(t, "3.6.99")
	s.answer(func(w http.ResponseWriter, _ *http.Request, nth int) bool {
		if nth > 2 {
			return false
		}
		w.WriteHeader([]int{http.StatusServiceUnavailable, http.StatusBadGateway}[nth-1])
		return true
	})
	o = s.from(t, "3.6.99")
	o.Sources.SHA256 = digest(release(t, "3.6.99"))
	reported(&o)
	o.Sources.AllowHTTP = true
	if _, _, err := Download(soon(t), o); err != nil {
		t.Fatal(err)
	}
	if len(said) != 3 || !strings.Contains(said[1], "503") || !strings.Contains(said[2], "502") {
		t.Errorf("it reports %q, want the URL and both answers", said)
	}
}
