package machines

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// endpoints reads URLs with commas in between. Where nobody is asked, any text
// will do: scripts that renew certificates have something made up there.
func endpoints(text string, unused bool) ([]string, error) {
	if unused {
		return nil, nil
	}
	var list []string
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		if !strings.Contains(word, "://") {
			word = "https://" + word
		}
		if strings.Contains(word, "@") {
			// It is not repeated: it may be in a log already, and need not be in another.
			return nil, &cli.UsageError{Text: "an endpoint has a user or a password in it, and members know each other by certificates",
				Next: "https://HOST:2379"}
		}
		u, err := url.Parse(word)
		if err != nil || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" ||
			u.Fragment != "" || !validPort(u.Port()) {
			return nil, &cli.UsageError{Text: fmt.Sprintf("%q is not an endpoint", word), Next: "https://HOST:2379"}
		}
		if u.Scheme != "https" {
			return nil, &cli.UsageError{
				Text: fmt.Sprintf("endpoint %s is not https", word), Next: "etcdadm's members use TLS only",
			}
		}
		if u.Port() == "" {
			u.Host = net.JoinHostPort(u.Hostname(), strconv.Itoa(cluster.EtcdClientPort))
		}
		list = append(list, "https://"+u.Host)
	}
	if len(list) == 0 {
		return nil, &cli.UsageError{Text: "the endpoint is missing", Next: "etcdadm join https://10.0.0.1:2379"}
	}
	return list, nil
}

// warnPeerPort warns of endpoints at the port where members talk to each other: nobody
// answers a client there, and the command would wait.
func (t *task) warnPeerPort() {
	for _, e := range t.endpoints {
		if host, ok := strings.CutSuffix(e, ":2380"); ok {
			t.warn("%s looks like a peer URL; an endpoint is a client URL, such as %s:2379", e, host)
		}
	}
}

// validPort says whether a port can be connected to, or is left open.
func validPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && port > 0
}
