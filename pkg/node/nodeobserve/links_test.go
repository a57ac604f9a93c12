package nodeobserve

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A peerNet is what a node reaches: the first URL of a member is its name.
type peerNet struct {
	mu    sync.Mutex
	down  map[string]error
	tries map[string]int
}

func (p *peerNet) try(ctx context.Context, urls []string) error {
	p.mu.Lock()
	p.tries[urls[0]]++
	err := p.down[urls[0]]
	p.mu.Unlock()
	if errors.Is(err, context.DeadlineExceeded) {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (p *peerNet) set(url string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down[url] = err
}

func TestLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w linkWatch
		p := &peerNet{down: map[string]error{}, tries: map[string]int{}}
		members := []cluster.Member{
			{ID: 1, Name: "a", PeerURLs: []string{"a"}}, {ID: 3, Name: "c", PeerURLs: []string{"c"}},
			{ID: 2, Name: "b", PeerURLs: []string{"b"}}, {ID: 4, PeerURLs: []string{"d"}}, // d has not started
		}
		links := func() []cluster.Link {
			l := w.of(t.Context(), 1, members, time.Now(), p.try)
			synctest.Wait()
			return l
		}
		want := func(what string, got []cluster.Link, want ...cluster.Link) {
			t.Helper()
			if len(got) != len(want) {
				t.Fatalf("%s: %+v, want %+v", what, got, want)
			}
			for i := range got {
				if got[i] != want[i] {
					t.Errorf("%s: %+v, want %+v", what, got[i], want[i])
				}
			}
		}
		refused := errors.New("connection refused")
		p.set("c", refused)
		want("at first", links(), cluster.Link{Member: 2}, cluster.Link{Member: 3})
		b := cluster.Link{Member: 2, Tried: true}
		want("after a round", links(), b, cluster.Link{Member: 3, Tried: true, Why: refused.Error(), Down: 1})
		for range 100 {
			links()
		}
		if p.tries["b"] != 1 || p.tries["c"] != 1 || p.tries["a"] != 0 || p.tries["d"] != 0 {
			t.Errorf("tries %v", p.tries)
		}
		// What fails is tried again sooner than what does not, and is down since it last worked.
		time.Sleep(linkRetryInterval)
		links()
		down := cluster.Link{Member: 3, Tried: true, Why: refused.Error(), Down: linkRetryInterval}
		want("3 seconds later", links(), b, down)
		if p.tries["b"] != 1 || p.tries["c"] != 2 {
			t.Errorf("tries %v", p.tries)
		}
		p.set("c", nil)
		time.Sleep(linkRetryInterval)
		links()
		want("when it works again", links(), b, cluster.Link{Member: 3, Tried: true})
		// Who has no certificate has not tried, and knows what it knew.
		p.set("c", errNotTried)
		time.Sleep(linkInterval)
		links()
		want("without a certificate", links(), b, cluster.Link{Member: 3, Tried: true})
		p.set("c", nil)
		// A port that swallows what it is sent holds up no observation, nor another link forever.
		p.set("b", context.DeadlineExceeded)
		time.Sleep(linkInterval)
		links()
		want("while one hangs", links(), b, cluster.Link{Member: 3, Tried: true})
		time.Sleep(linkTimeout)
		synctest.Wait()
		hung := cluster.Link{Member: 2, Tried: true, Why: context.DeadlineExceeded.Error()}
		hung.Down = linkInterval + linkTimeout
		want("when it has hung", links(), hung, cluster.Link{Member: 3, Tried: true})
		// A learner that has not reported its name may lack the entries that the port is for.
		members = append(members, cluster.Member{ID: 5, Learner: true, PeerURLs: []string{"e"}})
		if l := links(); len(l) != 3 || l[2] != (cluster.Link{Member: 5}) {
			t.Errorf("with a learner: %+v", l)
		}
		// A member with another address is another one.
		members[1].PeerURLs = []string{"c2"}
		if l := links(); l[1] != (cluster.Link{Member: 3}) {
			t.Errorf("with another address: %+v", l[1])
		}
		time.Sleep(linkTimeout)
		synctest.Wait()
	})
}

// Why a peer port does not answer is in plain words, whatever asked it.
func TestAPeerPortThatDoesNotAnswerIsReportedInPlainWords(t *testing.T) {
	for text, want := range map[string]string{
		"context deadline exceeded":                               "it did not answer in time",
		"dial tcp 10.0.0.3:2380: i/o timeout":                     "10.0.0.3:2380: no connection in time",
		"dial tcp 10.0.0.3:2380: connect: invalid argument":       "10.0.0.3:2380: invalid argument",
		"tls: failed to verify certificate: x509: not authorised": "tls: failed to verify certificate: x509: not authorised",
	} {
		asked := &url.Error{Op: "Get", URL: "https://10.0.0.3:2380/version", Err: errors.New(text)}
		if got := unanswered(fmt.Errorf("ask: %w", asked)); got != want {
			t.Errorf("%s is reported as %s, want %s", text, got, want)
		}
	}
	if got := unanswered(errors.New("status 503")); got != "status 503" {
		t.Errorf("an answer is reported as %s", got)
	}
}
