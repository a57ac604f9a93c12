package operate

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// Where nobody answers, the ways without a network are named, in the line that says what is waited for and in
// the error's hint.
func TestADownloadThatFailsNamesTheWaysWithoutANetwork(t *testing.T) {
	cfg := machine.Defaults()
	dir := t.TempDir()
	cfg.Version, cfg.Binaries.ReleaseURL = etcdversion.Must("3.6.16"), "https://127.0.0.1:1"
	cfg.Paths.Install, cfg.Paths.Cache = dir+"/bin", dir+"/cache"
	var said string
	m := &Machine{cfg: cfg, o: Options{Waiting: func(text string) { said = text }}}
	err := m.install(t.Context())
	var hint interface{ Hint() string }
	if !errors.As(err, &hint) {
		t.Fatalf("%v", err)
	}
	if err := m.waitRefused(t.Context(), err, 5*pause); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--binaries-dir=DIR", "--binaries-archive=FILE", "--release-url"} {
		if !strings.Contains(hint.Hint(), want) || !strings.Contains(said, want) || !strings.Contains(said, "127.0.0.1:1") {
			t.Errorf("no %q in %q, or in %q", want, hint.Hint(), said)
		}
	}
}

// Where the server of releases never answers, that is said as soon as the first try ends, and the
// command ends with the tries of one download. One that is overloaded is asked for longer.
func TestAServerOfReleasesThatDoesNotAnswerIsTriedForOneRound(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := machine.Defaults()
	dir := t.TempDir()
	cfg.Version, cfg.Binaries.ReleaseURL = etcdversion.Must("3.6.16"), "https://"+l.Addr().String()
	cfg.Paths.Install, cfg.Paths.Cache = dir+"/bin", dir+"/cache"
	cfg.Timeouts.Connect = machine.Duration(20 * time.Millisecond)
	var said []string
	m := &Machine{cfg: cfg, o: Options{
		Waiting:  func(text string) { said = append(said, text) },
		Fetching: func(url string) { said = append(said, url) },
	}}
	unanswered := m.install(t.Context())
	_ = m.install(t.Context())
	want := "no answer from " + l.Addr().String() + " in 20ms"
	if len(said) != 3 || !strings.HasPrefix(said[0], cfg.Binaries.ReleaseURL+"/v3.6.16/") || said[1] != want {
		t.Errorf("two downloads report %q, want the URL of each and once %q", said, want)
	}

	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer s.Close()
	m.cfg.Binaries.ReleaseURL, m.cfg.Binaries.AllowHTTP = s.URL, true
	overloaded := m.install(t.Context())
	for _, c := range []struct {
		err          error
		lasted, took time.Duration
		want         bool
	}{
		{unanswered, 0, 44 * time.Second, false}, // four tries of 10 s
		{unanswered, 0, 4 * time.Second, true},   // nobody listens: four tries, and their pauses
		{unanswered, 28 * time.Second, 4 * time.Second, false},
		{overloaded, 0, 44 * time.Second, true},
		{overloaded, 100 * time.Second, 4 * time.Second, true},
		{overloaded, 118 * time.Second, 4 * time.Second, false},
	} {
		step := machine.Step{Do: &machine.InstallBinaries{}}
		if got := m.later(c.err, step) && m.patient(step.Do, c.err, c.lasted, c.took); got != c.want {
			t.Errorf("%v: after %s, and a try of %s, it is tried again: %t", c.err, c.lasted, c.took, got)
		}
	}
}
