package backupagent

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func TestTheViewHasAllMembers(t *testing.T) {
	f := newFake(3)
	f.down[3] = true
	v, err := Dial(f.dial).view(t.Context(), []string{"http://m2"}, true)
	if err != nil || len(v.Candidates) != 3 || v.oneCluster() != nil {
		t.Fatalf("%+v, %v", v, err)
	}
	for _, s := range v.Candidates {
		if s.Mine != (s.ID == 2) || (s.Report == nil) != (s.ID == 3) {
			t.Errorf("%+v", s)
		}
	}
	if v, err = Dial(f.dial).view(t.Context(), []string{"http://m2"}, false); err != nil || v.Candidates[0].Report != nil {
		t.Errorf("others were asked: %+v, %v", v, err)
	}
}

func TestOneOfSeveralEndpointsIsEnough(t *testing.T) {
	f := newFake(3)
	f.down[1], f.down[2] = true, true
	if v, err := Dial(f.dial).view(t.Context(), []string{"http://m1", "http://m2", "http://m3"}, true); err != nil ||
		!v.Candidates[2].Mine {
		t.Errorf("%+v, %v", v, err)
	}
	f.down[3] = true
	_, err := Dial(f.dial).view(t.Context(), []string{"http://m1", "http://m2", "http://m3"}, true)
	for _, e := range []string{"m1", "m2", "m3"} {
		if err == nil || !strings.Contains(err.Error(), e) {
			t.Errorf("%v does not name %s", err, e)
		}
	}
}

// elsewhere answers for some endpoints as a member of another cluster.
func elsewhere(f *fake, endpoints string) Dial {
	return func(e string) (Member, error) {
		m, err := f.dial(e)
		if err != nil || !strings.Contains(endpoints, e) {
			return m, err
		}
		return stranger{m}, nil
	}
}

type stranger struct{ Member }

func (s stranger) Report(ctx context.Context) (cluster.Report, error) {
	r, err := s.Member.Report(ctx)
	r.ClusterID = 77
	return r, err
}

func TestWhatIsAdvertisedMayLeadAnywhere(t *testing.T) {
	f := newFake(3)
	v, err := elsewhere(f, "http://m1").view(t.Context(), []string{"http://m2"}, true)
	if err != nil || v.oneCluster() != nil {
		t.Fatalf("%v, %v", err, v.oneCluster())
	}
	for _, s := range v.Candidates {
		if s.ID == 1 && s.Report != nil {
			t.Error("a member of another cluster is taken for one of ours")
		}
	}
	v, err = elsewhere(f, "http://m1").view(t.Context(), []string{"http://m1", "http://m2"}, true)
	if err != nil || v.oneCluster() == nil || !strings.Contains(v.oneCluster().Error(), "another cluster") {
		t.Errorf("%v, %v", err, v.oneCluster())
	}
}

func TestTheFilesOfTLSAreReadEachTime(t *testing.T) {
	reads := 0
	missing := errors.New("ca.crt: no such file")
	dial := DialEtcd(nil)
	if m, err := dial("http://127.0.0.1:1"); err != nil || m.Close() != nil {
		t.Errorf("%v", err)
	}
	dial = readsOf(&reads, missing)
	for range 3 {
		if _, err := dial.view(t.Context(), []string{"https://127.0.0.1:1"}, true); !errors.Is(err, missing) {
			t.Errorf("%v", err)
		}
	}
	if reads != 3 {
		t.Errorf("read %d times", reads)
	}
}

func TestServe(t *testing.T) {
	s := open(t, "mem://")
	a := New(Config{ClusterName: "main", Store: s, Endpoints: []string{"http://m1"}, Dial: newFake(1).dial,
		Schedule: Schedule{Interval: time.Hour}, Name: "a"})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- a.Serve(ctx, l) }()
	page := func(path string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(b)
	}
	if code, text := page("/healthz"); code != http.StatusOK || text != "ok\n" {
		t.Errorf("%d %s", code, text)
	}
	_, text := page("/metrics")
	for _, line := range []string{
		"etcd_backup_age_seconds +Inf", "etcd_backup_healthy 1", "etcd_backup_last_timestamp_seconds 0",
		`etcd_backup_failures_total{what="take"} 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("there is no %q in\n%s", line, text)
		}
	}
	a.began = time.Now().Add(-4 * time.Hour)
	if code, text := page("/healthz"); code != http.StatusServiceUnavailable ||
		!strings.Contains(text, "no backup is known") {
		t.Errorf("%d %s", code, text)
	}
	if _, err := a.Once(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if code, text := page("/healthz"); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
	if _, text = page("/metrics"); !strings.Contains(text, "\netcd_backup_taken_total 1\n") ||
		!strings.Contains(text, "\netcd_backup_last_revision 7\n") {
		t.Errorf("in\n%s", text)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func readsOf(reads *int, err error) Dial {
	return DialEtcd(func() (*tls.Config, error) {
		*reads++
		return nil, err
	})
}
