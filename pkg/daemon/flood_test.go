package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// numbers serves metrics and health, and returns where. requestTime is for a web.
func numbers(t *testing.T, requestTime time.Duration) (address string, m *metrics) {
	t.Helper()
	m = newMetrics(quiet())
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	yes := func() error { return nil }
	go func() { served <- m.serve(ctx, l, web{alive: yes, ready: yes, requestTime: requestTime}) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-served)
	})
	return l.Addr().String(), m
}

// dialFrom connects from a source address, nil where it is refused.
func dialFrom(t *testing.T, source, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}, Timeout: 10 * time.Second}
	c, err := d.DialContext(t.Context(), "tcp4", to)
	if err != nil {
		return nil
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestHealthIsReportedInAFlood(t *testing.T) {
	// None of them is closed before the last one has come.
	address, m := numbers(t, testwait.Limit)
	for range 400 {
		if c := dialFrom(t, "127.0.0.2", address); c != nil {
			_, _ = c.Write([]byte("GET /metrics HTTP/1.1\r\nX-")) // and no more
		}
	}
	if code, body := get(t, "http://"+address+"/healthz"); code != http.StatusOK {
		t.Errorf("in a flood it says %d %q", code, body)
	}
	_, page := get(t, "http://"+address+"/metrics")
	wantLines(t, page, `etcdadm_connections_dropped_total{port="metrics"} 368`)
	m.dropped("grpc")
}

func TestAConnectionThatSaysNothingIsClosed(t *testing.T) {
	t.Parallel()
	address, _ := numbers(t, 0)
	for _, begin := range []string{"", "GET /metrics HTTP/1.1\r\nX-"} {
		c := dialFrom(t, "127.0.0.2", address)
		_, err := io.WriteString(c, begin)
		must(t, err)
		must(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		if b, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) || strings.Contains(string(b), "200 OK") {
			t.Errorf("after %q it answers %q, %v", begin, b, err)
		}
	}
	if s := (web{}).server(nil); s.IdleTimeout <= 0 || s.IdleTimeout > time.Minute || s.WriteTimeout <= 0 {
		t.Errorf("one that is kept alive may be idle for %s, and take %s", s.IdleTimeout, s.WriteTimeout)
	}
}

func TestWhereMetricsAreServed(t *testing.T) {
	for _, tc := range []struct{ address, metrics, want string }{
		{"10.0.0.1", "", "10.0.0.1:8081 127.0.0.1:8081"},
		{"127.0.0.1", "", "127.0.0.1:8081"},
		{"127.4.5.6", "", "127.4.5.6:8081"},
		{"2001:db8::1", "", "[2001:db8::1]:8081 127.0.0.1:8081"},
		{"10.0.0.1", "0.0.0.0", "0.0.0.0:8081"},
		{"10.0.0.1", "10.9.9.9", "10.9.9.9:8081"},
	} {
		c := Config{Address: tc.address, MetricsAddress: tc.metrics, MetricsPort: 8081}
		if got := strings.Join(c.ListenMetrics(), " "); got != tc.want {
			t.Errorf("%s and %q: %s, want %s", tc.address, tc.metrics, got, tc.want)
		}
	}
}
