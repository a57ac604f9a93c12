package netreason_test

import (
	"strconv"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/internal/netreason"
)

// connection are errors with which gRPC could not make a connection.
var connection = []struct{ text, want string }{
	{"transport: Error while dialing: dial tcp 127.0.0.1:8000: connect: connection refused", "127.0.0.1:8000: connection refused"},
	{"transport: Error while dialing: dial tcp 10.0.0.1:8000: i/o timeout", "10.0.0.1:8000: no connection in time"},
	{"transport: Error while dialing: dial tcp 10.0.0.1:8000: connect: no route to host", "10.0.0.1:8000: no route to host"},
	{"transport: Error while dialing: dial tcp: lookup node-a on 10.0.0.10:53: no such host",
		"the name node-a cannot be resolved: no such host"},
	{"error reading server preface: raw-read tcp 1.1.1.1:4->1.1.1.1:5: use of closed network connection", netreason.NoAnswer},
	{"error reading server preface: read tcp 1.1.1.1:4->1.1.1.1:5: i/o timeout", netreason.NoAnswer},
	{"error reading server preface: EOF", netreason.Closed},
	{"error reading server preface: read tcp 1.1.1.1:4->1.1.1.1:5: read: connection reset by peer", netreason.Closed},
	{"write tcp 1.1.1.1:4->1.1.1.1:5: write: broken pipe", netreason.Closed},
	{"error reading server preface: http2: failed reading the frame payload: http2: frame too large, note that the " +
		"frame header looked like an HTTP/1.1 header", netreason.Foreign},
	{"initial http2 frame from server is not a settings frame: *http2.GoAwayFrame", netreason.Foreign},
	{"transport: authentication handshake failed: context deadline exceeded", netreason.NoAnswer},
	{"transport: authentication handshake failed: EOF", netreason.Closed},
	{"transport: authentication handshake failed: tls: first record does not look like a TLS handshake", netreason.Plaintext},
	{`transport: authentication handshake failed: x509: certificate is valid for "a", not b`,
		`x509: certificate is valid for "a", not b`},
}

func TestPlain(t *testing.T) {
	for _, tc := range connection {
		for _, before := range []string{"", "latest balancer error: "} {
			text := before + "connection error: desc = " + strconv.Quote(tc.text)
			if got := netreason.Plain(text); got != tc.want {
				t.Errorf("%s\n is %s\nwant %s", text, got, tc.want)
			}
		}
	}
	for text, want := range map[string]string{
		"error reading from server: EOF": netreason.Lost,
		"error reading from server: read tcp 1.1.1.1:4->1.1.1.1:5: read: connection reset by peer": netreason.Lost,
		"transport is closing":                                                    netreason.Lost,
		"the connection is draining":                                              netreason.Stopping,
		"keepalive ping failed to receive ACK within timeout":                     netreason.NoAnswer,
		"context deadline exceeded":                                               netreason.Late,
		"context deadline exceeded while waiting for connections to become ready": netreason.NoAnswer,
		"dial tcp 10.0.0.2:2380: i/o timeout":                                     "10.0.0.2:2380: no connection in time",
		"the node belongs to another cluster":                                     "the node belongs to another cluster",
		"":                                                                        "",
	} {
		if got := netreason.Plain(text); got != want {
			t.Errorf("%s\n is %s\nwant %s", text, got, want)
		}
	}
}
