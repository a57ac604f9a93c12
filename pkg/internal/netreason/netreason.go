// Package netreason says in plain words why a connection or a call on one failed: gRPC and Go's net
// package speak of prefaces, frames and raw reads.
package netreason

import (
	"regexp"
	"strconv"
	"strings"
)

// The reasons that have no words of the system.
const (
	// NoAnswer is a listener that says nothing.
	NoAnswer = "it accepts connections but does not answer"
	// Late is a call without an answer in its time.
	Late = "it did not answer in time"
	// Closed is a listener that hangs up.
	Closed = "it accepts the connection and closes it"
	// Foreign is a listener that speaks something else.
	Foreign = "another program answers there"
	// Plaintext is a listener without TLS where TLS was tried.
	Plaintext = "it does not speak TLS"
	// Lost is a connection that ended in the middle of a call.
	Lost = "the connection was lost before the answer"
	// Stopping is a server that takes no more calls.
	Stopping = "it is stopping"
)

// described is how gRPC shows a connection that failed: in quotes, and maybe within more words.
var described = regexp.MustCompile(`connection error: desc = ("(?:[^"\\]|\\.)*")`)

// dialled is how package net shows a connection that was not made, or an end of one.
var dialled = regexp.MustCompile(`^(?:dial|read|write) tcp\d? (?:\S+->)?(\S+): (.*)$`)

// unresolved is how it shows a name without an address.
var unresolved = regexp.MustCompile(`^dial tcp\d?: lookup (\S+?)(?: on \S+)?: (.*)$`)

// stages are the words of gRPC before the reason, and what a time that is over means there.
var stages = []struct{ words, late string }{
	{"transport: Error while dialing: ", ""},
	{"transport: error while dialing: ", ""},
	{"transport: authentication handshake failed: ", NoAnswer},
	{"error reading server preface: ", NoAnswer},
	{"transport: failed to write client preface: ", NoAnswer},
	{"transport: failed to write initial settings frame: ", NoAnswer},
	{"transport: failed to write window update: ", NoAnswer},
	{"error reading from server: ", Lost},
	{"closing connection since the server is not reading: ", NoAnswer},
}

// whole are texts that are a reason by themselves.
var whole = map[string]string{
	"transport is closing":                                                    Lost,
	"keepalive ping failed to receive ACK within timeout":                     NoAnswer,
	"the connection is draining":                                              Stopping,
	"no active streams left to process while draining":                        Stopping,
	"the stream is rejected because server is draining the connection":        Stopping,
	"received goaway and there are no active streams":                         Stopping,
	"context deadline exceeded":                                               Late,
	"context deadline exceeded while waiting for connections to become ready": NoAnswer,
}

// Plain returns the reason in text, an error of a call or of a connection, in plain words. A reason of
// crypto/tls or crypto/x509 stays as it is, and so does what is not known.
func Plain(text string) string {
	if m := described.FindStringSubmatch(text); m != nil {
		if inner, err := strconv.Unquote(m[1]); err == nil {
			text = inner
		}
	}
	if plain, ok := whole[text]; ok {
		return plain
	}
	for _, s := range stages {
		if reason, ok := strings.CutPrefix(text, s.words); ok {
			return at(reason, s.late)
		}
	}
	return at(text, "")
}

// at is Plain for the reason of a stage: late is what a time that is over means there, empty where the
// connection is not made yet.
func at(reason, late string) string {
	switch {
	case has(reason, "first record does not look like a TLS handshake"):
		return Plaintext
	case has(reason, "http2: ", "http2 frame", "not a settings frame"):
		return Foreign
	case late != "" && has(reason, "use of closed network connection", "i/o timeout", "deadline exceeded"):
		return late
	case !strings.HasPrefix(reason, "dial ") &&
		(strings.HasSuffix(reason, "EOF") || has(reason, "connection reset by peer", "broken pipe")):
		if late == Lost {
			return Lost
		}
		return Closed
	}
	if m := unresolved.FindStringSubmatch(reason); m != nil {
		return "the name " + m[1] + " cannot be resolved: " + m[2]
	}
	if m := dialled.FindStringSubmatch(reason); m != nil {
		why := strings.TrimPrefix(m[2], "connect: ")
		if why == "i/o timeout" {
			why = "no connection in time"
		}
		return m[1] + ": " + why
	}
	return reason
}

func has(text string, any ...string) bool {
	for _, s := range any {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}
