package etcdclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// A realm is a CA with what it issues.
type realm struct {
	ca  *certs.CA
	now time.Time
}

func newRealm(t *testing.T, name string) realm {
	t.Helper()
	now := time.Now()
	ca, err := certs.NewCA(certs.CASpec{CommonName: name, Lifetime: 100 * 24 * time.Hour}, now.Add(-48*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return realm{ca, now}
}

// issue returns a certificate for server and client that ends after a while.
func (r realm) issue(t *testing.T, name string, ip string, left time.Duration) tls.Certificate {
	t.Helper()
	begin := r.now
	if left < 0 {
		begin = r.now.Add(left - time.Hour)
	}
	leaf, err := r.ca.Issue(certs.Request{
		CommonName: name, IPs: []net.IP{net.ParseIP(ip)}, Client: true, Server: true, Lifetime: r.now.Add(left).Sub(begin),
	}, begin)
	if err != nil {
		t.Fatal(err)
	}
	return leaf.TLS()
}

func (r realm) client(pairs ...tls.Certificate) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: r.ca.Pool(), Certificates: pairs}
}

// serve runs an http server that wants certificates of the realm, and returns
// its address without the scheme.
func (r realm) serve(t *testing.T, pair tls.Certificate, auth tls.ClientAuthType) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: r.ca.Pool(), ClientAuth: auth}
	s.EnableHTTP2 = true
	s.Config.ErrorLog = discard()
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

var errTime = fmt.Errorf("status: %w", context.DeadlineExceeded)

func TestWhyThereIsNoAnswer(t *testing.T) {
	ours, theirs := newRealm(t, "ours"), newRealm(t, "theirs")
	const local, day = "127.0.0.1", 24 * time.Hour
	server, client := ours.issue(t, "server", local, day), ours.issue(t, "client", local, day)
	good := ours.serve(t, server, tls.RequireAndVerifyClientCert)
	open := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(open.Close)
	unreachable, err := net.Listen("tcp", local+":0") // the kernel accepts, and no node answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unreachable.Close() })
	free := strings.TrimPrefix("http://"+testport.Address(t), "http://")

	for _, tc := range []struct {
		name, endpoint string
		config         *tls.Config
		text, next     string
		code           string
	}{
		{"nobody listens", "https://" + free, ours.client(client), "refused", "check there whether etcd runs, and whether this is its client port: etcdadm info; its log: journalctl -u etcd, or etcd.log in the data directory where an etcd-manager runs it", ""},
		{"no node answers", "http://" + unreachable.Addr().String(), nil, "does not answer",
			"check its log: journalctl -u etcd, or etcd.log in the data directory where an etcd-manager runs it", ""},
		{"no node answers a handshake", "https://" + unreachable.Addr().String(), ours.client(client), "does not answer",
			"hangs", ""},
		{"no such name", "https://a..b:2379", ours.client(client), "the name a..b cannot be resolved", "/etc/hosts", ""},
		{"no URL", "https://", nil, "not a client URL", "", ""},
		{"unknown CA", "https://" + good, theirs.client(client), `was issued by "ours"`, "--cacert", ""},
		{"server expired", "https://" + ours.serve(t, ours.issue(t, "old", local, -time.Hour), tls.NoClientCert),
			ours.client(client),
			"its certificate is expired since", "certs renew", ""},
		{"server for another host", "https://" + ours.serve(t, ours.issue(t, "x", "192.0.2.7", day), tls.NoClientCert),
			ours.client(client),
			"is not for 127.0.0.1, but for 192.0.2.7", "issue the server's certificate again", ""},
		{"server without TLS", "https://" + open.Listener.Addr().String(), ours.client(client), "does not speak TLS",
			"--insecure", ""},
		{"server with TLS", "http://" + good, nil, "expects TLS", "https://", ""},
		{"no client certificate", "https://" + good, ours.client(), "none is given", "--cert", "refused"},
		{"client of another CA", "https://" + good, ours.client(theirs.issue(t, "stranger", local, day)),
			`rejects the client certificate "stranger" of the CA "theirs"`, "--cert", "refused"},
		{"client expired", "https://" + good, ours.client(ours.issue(t, "late", local, -time.Hour)), "which is expired since",
			"check-expiration", "refused"},
		{"not etcd", "https://" + good, ours.client(client), "does not answer", "check its log", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var err error
			// With so many at the same time a busy machine may run out of time.
			testwait.For(t, "the reason", func(context.Context) error {
				began := time.Now()
				err = Explain(t.Context(), tc.endpoint, tc.config, errTime)
				if took := time.Since(began); took > 10*probeTimeout {
					return fmt.Errorf("it took %s", took)
				}
				if err != nil && !strings.Contains(err.Error(), tc.text) {
					return fmt.Errorf("it says %w, want %q in it", err, tc.text)
				}
				return nil
			})
			var e *EndpointError
			if !errors.As(err, &e) || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("the error is %v", err)
			}
			if !strings.HasPrefix(err.Error(), tc.endpoint+": ") {
				t.Errorf("it says %q, and not where", err)
			}
			if !strings.Contains(e.Hint(), tc.next) || tc.next == "" && e.Hint() != "" {
				t.Errorf("the hint is %q, want %q in it", e.Hint(), tc.next)
			}
			trusts := []string{"nobody listens", "no node answers", "no node answers a handshake", "no such name", "no URL",
				"server with TLS", "not etcd"}
			if e.Refused == slices.Contains(trusts, tc.name) {
				t.Errorf("refused is %v", e.Refused)
			}
			if e.Clock != slices.Contains([]string{"server expired", "client expired"}, tc.name) {
				t.Errorf("a clock may be why: %v", e.Clock)
			}
			if e.Kind() != tc.code {
				t.Errorf("the kind is %q, want %q", e.Kind(), tc.code)
			}
			testwait.For(t, "the same from a probe", func(context.Context) error {
				probed := Probe(t.Context(), tc.endpoint, tc.config)
				if unreachable := strings.Contains(tc.text, "not answer"); unreachable != (probed == nil) || !unreachable &&
					probed.Error() != err.Error() {
					return fmt.Errorf("the probe says %w, and the explanation %w", probed, err)
				}
				return nil
			})
		})
	}
}

// A load balancer accepts connections for servers that are still to come, and ends them.
func TestAConnectionThatEndsRefusesNobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	r := newRealm(t, "ours")
	testwait.For(t, "a probe in its time", func(context.Context) error {
		var e *EndpointError
		if err := Probe(t.Context(), "https://"+l.Addr().String(), r.client()); !errors.As(err, &e) || e.Refused {
			return fmt.Errorf("the probe says %w, refused: %t", err, e != nil && e.Refused)
		}
		return nil
	})
}

// explained waits for an explanation with a text: a busy machine may run out of time.
func explained(t *testing.T, endpoint string, config *tls.Config, text string) {
	t.Helper()
	testwait.For(t, text, func(context.Context) error {
		err := Explain(t.Context(), endpoint, config, errTime)
		if err == nil || !strings.Contains(err.Error(), text) {
			return fmt.Errorf("the error is %w", err)
		}
		return nil
	})
}

func TestAServerFromTheFutureIsNotValidYet(t *testing.T) {
	ours := newRealm(t, "ours")
	// The client's clock is behind by more than the certificate is old.
	config := ours.client()
	config.Time = func() time.Time { return ours.now.Add(-72 * time.Hour) }
	at := "https://" + ours.serve(t, ours.issue(t, "new", "127.0.0.1", time.Hour), tls.NoClientCert)
	explained(t, at, config, "its certificate is not valid before")
}

func TestAProbeEndsWithItsContext(t *testing.T) {
	unreachable, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer unreachable.Close()
	// One that did not end with it would take as long as a probe may, each time.
	testwait.For(t, "the end of a probe with its context", func(context.Context) error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		for _, scheme := range []string{"http://", "https://"} {
			if err := Probe(ctx, scheme+unreachable.Addr().String(), nil); err != nil &&
				!strings.Contains(err.Error(), "no connection within 0s") {
				return err
			}
		}
		if took := time.Since(began); took > probeTimeout {
			return fmt.Errorf("it took %s", took)
		}
		return nil
	})
}

func TestWhatNeedsNoExplanation(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	known := &EndpointError{Endpoint: "https://x", Text: "y", Err: errTime}
	for name, tc := range map[string]struct {
		ctx context.Context
		err error
	}{
		"nothing":            {t.Context(), nil},
		"etcd's own answer":  {t.Context(), rpctypes.ErrPermissionDenied},
		"a full disk":        {t.Context(), rpctypes.ErrNoSpace},
		"another error":      {t.Context(), errors.New("disk full")},
		"a user who stopped": {cancelled, errTime},
		"a cancelled call":   {t.Context(), context.Canceled},
		"what is explained":  {t.Context(), known},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Explain(tc.ctx, "https://127.0.0.1:1", nil, tc.err); !errors.Is(got, tc.err) || got != nil &&
				got.Error() != tc.err.Error() {
				t.Errorf("it became %v", got)
			}
		})
	}
}

func TestWhatCountsAsNoAnswer(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{context.Canceled, false},
		{context.DeadlineExceeded, true},
		{fmt.Errorf("x: %w", status.Error(codes.Unavailable, "connection refused")), true},
		{fmt.Errorf("remove: %w", status.Error(codes.Unknown, "raft: stopped")), true},
		{status.Error(codes.Unknown, "x"), false},
		{status.Error(codes.InvalidArgument, "x"), false},
		{rpctypes.ErrNoLeader, true},
		{rpctypes.ErrMemberNotFound, false},
		{errors.New("x"), false},
	} {
		if got := Unanswered(tc.err); got != tc.want {
			t.Errorf("%v: %t", tc.err, got)
		}
	}
}

func TestACertificateWithoutHosts(t *testing.T) {
	if got := names(&x509.Certificate{}); got != "no host" {
		t.Errorf("it is for %s", got)
	}
	if got := names(&x509.Certificate{
		DNSNames: []string{"a", "b"}, IPAddresses: []net.IP{net.IPv6loopback},
	}); got != "a, b, ::1" {
		t.Errorf("it is for %s", got)
	}
}

func TestTheCertificateThatIsShown(t *testing.T) {
	ours := newRealm(t, "ours")
	pair := ours.issue(t, "client", "127.0.0.1", time.Hour)
	for name, tc := range map[string]struct {
		config *tls.Config
		want   string
	}{
		"none":  {&tls.Config{}, ""},
		"fixed": {ours.client(pair), "client"},
		"by call": {&tls.Config{
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil },
		}, "client"},
		"refused": {&tls.Config{
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return nil, errTime },
		}, ""},
		"garbage": {ours.client(tls.Certificate{Certificate: [][]byte{{1, 2}}}), ""},
	} {
		got := ""
		if leaf := Shown(tc.config); leaf != nil {
			got = leaf.Subject.CommonName
		}
		if got != tc.want {
			t.Errorf("%s: %q is shown, want %q", name, got, tc.want)
		}
	}
}

// A member without a leader is distinguished from one that does not answer.
func TestAClusterWithoutALeader(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		a, c := half(t, bin)
		var err error
		testwait.For(t, "the refusal of a read", func(context.Context) error {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			err = Explain(ctx, a.ClientURL, nil, c.Healthy(ctx))
			if err == nil || !strings.Contains(err.Error(), "has no leader") {
				return fmt.Errorf("it says %w", err)
			}
			return nil
		})
		var e *EndpointError
		if !errors.As(err, &e) || e.Kind() != "quorum-lost" || !strings.Contains(e.Hint(), "other members") {
			t.Errorf("the error is %+v", e)
		}
	})
}

// A member that has stopped answering is not taken for one that is down.
func TestAnEtcdThatWasOverloaded(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		a, _ := initialMember(t, bin)
		explained(t, a.ClientURL, nil, "did not answer this request in time")
	})
}
