//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/testing/existing"
)

// events gives a machine the line of EtcdEventsHTTP, or that without.
func (x *exchange) events(n *harness.Node, http bool) {
	flags := slices.DeleteFunc(n.Flags, func(f string) bool {
		return strings.Contains(f, "http") || f == "--etcd-insecure=true"
	})
	if http {
		e := harness.KopsMain
		for name, port := range map[string]int{"client": e.Client, "peer": e.Peer, "quarantine-client": e.Quarantine} {
			flags = append(flags, fmt.Sprintf("--%s-urls=http://__name__:%d", name, port))
		}
		flags = append(flags, "--etcd-insecure=true")
	}
	n.Flags = flags
	n.EtcdInsecure.Store(http)
}

// becomes exchanges what runs on a machine, with or without TLS for etcd.
func (x *exchange) becomes(n *harness.Node, start func(*harness.Node), http bool) {
	x.t.Helper()
	n.Stop()
	x.events(n, http)
	start(n)
	x.c.WaitNames(harness.Soon, kopsVoters...)
	x.unchanged()
}

// at waits until etcd has the URLs of a machine with these schemes.
func (x *exchange) at(n *harness.Node, peer, client string) {
	x.t.Helper()
	eventually(x.t, x.c, "etcd's record of "+n.Name, func() error {
		list, err := x.c.Members(x.t.Context())
		for _, m := range list {
			want := []string{fmt.Sprintf("%s://%s:2380", peer, n.Host), fmt.Sprintf("%s://%s:4001", client, n.Host)}
			if got := slices.Concat(m.PeerURLs, m.ClientURLs); m.Name == n.Name && !slices.Equal(got, want) {
				err = fmt.Errorf("they are %v", got)
			}
		}
		return err
	})
}

// A cluster of the existing tool whose etcd has no TLS gets TLS in the same rolling update as
// the image, and some machines go back to the existing tool in the middle of it, whose leaders
// switch TLS on, too. Members serve all the time.
func TestRollingExchangeToTLS(t *testing.T) {
	t.Parallel()
	x := machines(t, 250*time.Millisecond)
	a, b, c := x.nodes[0], x.nodes[1], x.nodes[2]
	x.c.SetSpec(3, v36)
	for _, n := range x.nodes {
		x.events(n, true)
		x.startExisting(n)
	}
	x.serve(kopsVoters...)
	for _, n := range x.nodes {
		x.at(n, "http", "http")
	}
	w := x.c.Write()
	more := func() { t.Helper(); w.WaitMore(harness.Soon, 10) }
	more()

	measured := w.Measure()
	x.becomes(a, x.startOurs, false)
	x.at(a, "http", "https") // ours change no record beside the existing tool
	more()
	x.becomes(b, x.startOurs, true) // the image alone
	x.at(b, "http", "http")
	more()
	x.becomes(c, x.startExisting, false)
	x.at(c, "https", "https")
	x.serveTLS(c)
	more()
	x.seenHealthy()
	x.becomes(a, x.startExisting, false)
	x.at(a, "https", "https")
	x.serveTLS(a)
	x.at(b, "http", "http")
	more()
	x.seenHealthy()
	x.undecided()

	for _, n := range []*harness.Node{a, b, c} {
		x.becomes(n, x.startOurs, false)
		more()
	}
	x.takenOver()
	for _, n := range x.nodes {
		x.at(n, "https", "https")
		x.serveTLS(n)
	}
	x.c.WaitNames(harness.Soon, kopsVoters...)
	more()
	measured("TLS of etcd is switched on while the program is exchanged, back and forth")
}

// serveTLS waits until the file state of a machine says what etcd's record says: that its
// member listens for peers with TLS.
func (x *exchange) serveTLS(n *harness.Node) {
	x.t.Helper()
	x.c.Eventually(harness.Soon, "TLS in the file state of "+n.Name, func(context.Context) error {
		s, err := existing.ReadState(n.DataDir())
		if err != nil {
			return err
		}
		own, _ := s.Node(n.Name)
		if want := []string{"https://" + n.Host + ":2380"}; !own.TLS || !slices.Equal(own.Peer, want) {
			return fmt.Errorf("it is %+v", own)
		}
		return nil
	})
}

// seenHealthy waits until one of ours has seen, after this, that all members are healthy.
func (x *exchange) seenHealthy() {
	x.t.Helper()
	began := time.Now()
	x.c.Eventually(harness.Soon, "healthy members as ours see them", func(context.Context) error {
		r, err := x.c.Status()
		if err == nil && r.Observation.At.Before(began) {
			err = errors.New("the status is an old one")
		}
		for _, m := range r.Observation.Members {
			if !m.Healthy {
				err = errors.Join(err, fmt.Errorf("%s is %s: %s", m.Name, m.Condition, m.Why))
			}
		}
		return err
	})
}
