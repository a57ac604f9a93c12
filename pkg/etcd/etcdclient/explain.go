package etcdclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// probeTimeout bounds each of the two observations that [Explain] takes: at the
// connection, and at what answers there.
const probeTimeout = 2 * time.Second

// whereLog says where the log of an etcd is, of which only its URL is known.
const whereLog = "journalctl -u etcd, or etcd.log in the data directory where an etcd-manager runs it"

// An EndpointError says why there was no answer from an endpoint.
type EndpointError struct {
	// Endpoint is the client URL.
	Endpoint string
	// Text is the reason, Next what to do about it, which may be empty.
	Text, Next string
	// Code is the kind of failure: "refused" for a certificate that was not
	// accepted, "quorum-lost" for a cluster without a leader, "" for others.
	Code string
	// Cause is the kind of reason, as far as the connection shows it.
	Cause cluster.Cause
	// Refused says that one side has said why it does not accept the other: waiting does
	// not change that, but for Clock. A connection that just ends says nothing.
	Refused bool
	// Clock says that a clock may be why: when it is set, both accept each other.
	Clock bool
	// Err is the error of the call that failed.
	Err error
}

func (e *EndpointError) Error() string { return e.Endpoint + ": " + e.Text }

// Hint says what to do about it.
func (e *EndpointError) Hint() string { return e.Next }

// Kind names the failure as exit codes do.
func (e *EndpointError) Kind() string { return e.Code }

func (e *EndpointError) Unwrap() error { return e.Err }

// Explain finds out why a call to an endpoint failed with err: gRPC says no
// more than that it could not connect, or that the time was over. It connects
// once more by itself, which takes a few seconds at most, also where ctx has
// reached its deadline. The result is an [*EndpointError] around err.
//
// An error that etcd itself answered with, and that of a context that was
// cancelled, explain themselves and come back as they are; nil stays nil.
func Explain(ctx context.Context, endpoint string, config *tls.Config, err error) error {
	if !Unanswered(err) || errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	var known *EndpointError
	if errors.As(err, &known) {
		return err
	}
	e := &EndpointError{Endpoint: endpoint, Err: err}
	ctx = context.WithoutCancel(ctx)
	if !e.observe(ctx, config) {
		e.ask(ctx, config)
	}
	return e
}

// Probe connects to an endpoint once and checks whether both sides accept each
// other, which takes milliseconds, and two seconds at most. The client itself
// tries until its context ends. The error is an [*EndpointError]; without one,
// somebody listens there, who may still not answer.
func Probe(ctx context.Context, endpoint string, config *tls.Config) error {
	e := &EndpointError{Endpoint: endpoint}
	if e.observe(ctx, config) {
		return e
	}
	return nil
}

// observe checks the connection. It reports whether something is wrong with it.
func (e *EndpointError) observe(ctx context.Context, config *tls.Config) bool {
	u, err := url.Parse(e.Endpoint)
	if err != nil || u.Host == "" {
		e.Text = "it is not a client URL"
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, done := e.connect(ctx, u.Host)
	if done {
		return true
	}
	// Both have said what they can when it is closed.
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // it fails for closed connections only
	}
	if u.Scheme == "https" {
		bad := e.handshake(ctx, conn, u, config)
		if bad {
			e.Cause = cluster.CauseTLS
		}
		return bad
	}
	return e.plain(conn)
}

// Unanswered reports whether err says that no answer came: the connection
// failed, the time was over, or the member was stopped meanwhile. Every other
// error is etcd's own answer.
func Unanswered(err error) bool {
	var answer rpctypes.EtcdError
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if errors.As(err, &answer) {
		// These are not about the call but about the cluster's leader.
		return answer.Code() == codes.Unavailable
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	code, text := codes.OK, ""
	var s interface{ GRPCStatus() *status.Status }
	if errors.As(err, &s) {
		code, text = s.GRPCStatus().Code(), s.GRPCStatus().Message()
	}
	stopping := code == codes.Unknown && text == "raft: stopped"
	return stopping || code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled
}

// connect checks whether there is somebody. It reports whether the reason is
// found.
func (e *EndpointError) connect(ctx context.Context, host string) (net.Conn, bool) {
	began := time.Now()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case err == nil:
		return conn, false
	case errors.As(err, &dns):
		e.Text = fmt.Sprintf("the name %s cannot be resolved", dns.Name)
		e.Next = "check /etc/hosts and the name server, or use the IP address"
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Cause = cluster.CauseRefused
		e.Text = "nothing listens there: connection refused"
		e.Next = "check there whether etcd runs, and whether this is its client port: etcdadm info; its log: " + whereLog
	case errors.As(err, &timeout) && timeout.Timeout():
		e.Cause = cluster.CauseTimeout
		e.Text = fmt.Sprintf("no connection within %s", time.Since(began).Round(100*time.Millisecond))
		e.Next = "the machine is down, or a firewall drops packets to the port"
	default:
		e.Text = reason(err)
		e.Next = "check the network between this machine and that one"
	}
	return nil, true
}

// reason is the innermost text of a network error, which does not repeat the
// address.
func reason(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}

// plain checks whether what listens without TLS understands http. A server with
// TLS says that it does not, or hangs up.
func (e *EndpointError) plain(conn net.Conn) bool {
	if _, err := fmt.Fprintf(conn, "GET /version HTTP/1.0\r\n\r\n"); err != nil {
		return false
	}
	answer := make([]byte, 512)
	n, err := conn.Read(answer)
	text := string(answer[:n])
	tlsAlert := n >= 2 && answer[0] == 21 && answer[1] == 3
	if tlsAlert || strings.Contains(text, "HTTPS server") || n == 0 && err != nil && !isTimeout(err) {
		e.Cause, e.Text = cluster.CauseTLS, "it expects TLS, but the connection has none"
		e.Next = "use https:// and certificates, without --insecure"
		return true
	}
	return false
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// ask looks what etcd says of itself, where the connection is good.
func (e *EndpointError) ask(ctx context.Context, config *tls.Config) {
	if u, err := url.Parse(e.Endpoint); err == nil && u.Scheme != "https" {
		config = nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	c, err := Open(Options{Endpoints: []string{e.Endpoint}, TLS: config})
	if err != nil {
		e.Text = err.Error()
		return
	}
	defer func() { _ = c.Close() }()
	s, err := c.c.Status(ctx, e.Endpoint)
	switch {
	case err != nil:
		e.Text = "it accepts connections but does not answer"
		e.Next = "etcd hangs there, or waits for the other members before it serves for the first time: check its log: " +
			whereLog
	case s.Leader == 0:
		e.Text = "the cluster has no leader: too few voters run and reach each other for a majority"
		e.Next = "bring the other members back first; see what one member knows of them: etcdadm info"
		e.Code = "quorum-lost"
	default:
		e.Text = "it answers, but did not answer this request in time"
		e.Next = "etcd is overloaded, its disk is slow, or a leader was just elected: try again, with a longer --timeout if need be"
	}
}
