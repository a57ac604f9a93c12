package store

import (
	"regexp"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/internal/shell"
)

// Secrets as the errors of clouds, of HTTP clients and of URLs show them: in the
// query of a URL that is signed or has a token, in its user part, in a connection
// string, in a header, and in the JSON of a log-in.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\b(sig|signature|x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|x-goog-credential|` +
		`awsaccesskeyid|googleaccessid|access_token|client_secret|sharedaccesssignature|accountkey|secretaccesskey|sessiontoken|token|password)(=|%3D)[^&\s"'<>;,)]+`),
	regexp.MustCompile(`(://)([^/\s"'@:]+:[^/\s"'@]*)@`),
	regexp.MustCompile(`(?i)\b((?:authorization|x-(?:auth|subject|storage)-token): *)(\w+ +)?[^\s"'<>]+`),
	regexp.MustCompile(`(?i)("(?:password|secret|passcode)" *: *")(?:[^"\\]|\\.)*`),
}

const hidden = "REDACTED"

// redact returns text without the secrets that a driver, a cloud or a proxy may
// have put into it.
func redact(text string) string {
	text = secrets[0].ReplaceAllString(text, "${1}${2}"+hidden)
	text = secrets[1].ReplaceAllString(text, "${1}"+hidden+"@")
	text = secrets[2].ReplaceAllString(text, "${1}"+hidden)
	return secrets[3].ReplaceAllString(text, "${1}"+hidden)
}

// Shown is a location of a store without the secrets that somebody may have written into it. A user
// without a password may be a token.
func Shown(location string) string {
	if scheme, rest, ok := strings.Cut(location, "://"); ok {
		end := len(rest)
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			end = i
		}
		if at := strings.LastIndex(rest[:end], "@"); at >= 0 {
			location = scheme + "://" + hidden + rest[at:]
		}
	}
	return redact(location)
}

// Flag is the flag that gives a location to a program, for a line that is shown: empty for no location,
// and for one with a secret.
func Flag(location string) string {
	if location == "" || Shown(location) != location {
		return ""
	}
	return "--backup-store=" + shell.Quote(location)
}

// changing are the parts of an answer that are others each time: the IDs of requests, their times, and
// the port of this machine.
var changing = []struct {
	found *regexp.Regexp
	left  string
}{
	{regexp.MustCompile(`(?i)\s*"?\b(?:x-(?:amz|ms|goog)-)?(?:request-?_?id|host-?_?id|trans-?_?id|id-2)\b"? *[:=] *"?[^\s",;<>)]*"?[,;]?`), ""},
	{regexp.MustCompile(`(?i)\s*\btime *[:=] *\d{4}-\d\d-\d\dT[0-9:.]+Z?[,;]?`), ""},
	{regexp.MustCompile(`\b((?:read|write) (?:tcp|udp)\d?) \S+->`), "$1 "},
}

// Steady is the text of an error without what is another in each answer, so that a call that is
// repeated is reported once for each reason.
func Steady(text string) string {
	for _, c := range changing {
		text = c.found.ReplaceAllString(text, c.left)
	}
	return text
}

// A redacted error is another one with a text that may be shown.
type redacted struct{ error }

func (e redacted) Error() string { return noAnswer.ReplaceAllString(redact(e.error.Error()), "") }

// noAnswer is what the SDK of AWS says of an answer that has not come.
var noAnswer = regexp.MustCompile(`https response error StatusCode: 0, (RequestID: , )?(HostID: , )?(canceled, )?`)

func (e redacted) Unwrap() error { return e.error }
