package nodeobserve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/netreason"
)

const (
	// linkInterval is how often a peer port that answers is tried again, linkRetryInterval one
	// that does not.
	linkInterval      = 15 * time.Second
	linkRetryInterval = 3 * time.Second
	// linkTimeout is how long a peer port may take to answer a question that needs
	// nothing but its process.
	linkTimeout = 3 * time.Second
)

// A linkWatch tries the peer ports of the other members, in the background of the
// observations that ask for the results.
type linkWatch struct {
	mu    sync.Mutex
	links map[cluster.MemberID]*link
	// trying says that a round is under way.
	trying bool
}

type link struct {
	urls []string
	// tried is when the last try began, up when one last succeeded, or, before
	// that, when the member was first heard of.
	tried, up time.Time
	known     bool
	why       string
}

// of returns the links to the members other than self, by what is known now, and has tried
// those that are due. Voters that have never started are left out, learners are not:
// one that no entries reach cannot know that it has started. It waits for nothing.
func (w *linkWatch) of(ctx context.Context, self cluster.MemberID, members []cluster.Member, now time.Time,
	try func(ctx context.Context, urls []string) error) (list []cluster.Link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	links := map[cluster.MemberID]*link{}
	for _, m := range members {
		if m.ID == self || m.Name == "" && !m.Learner {
			continue
		}
		l := w.links[m.ID]
		if l == nil || !slices.Equal(l.urls, m.PeerURLs) {
			l = &link{urls: m.PeerURLs, up: now}
		}
		links[m.ID] = l
		reported := cluster.Link{Member: m.ID, Tried: l.known, Why: l.why}
		if l.why != "" {
			reported.Down = max(now.Sub(l.up), 1)
		}
		list = append(list, reported)
	}
	w.links = links
	slices.SortFunc(list, func(a, b cluster.Link) int { return cmp.Compare(a.Member, b.Member) })
	if due := w.due(now); len(due) > 0 {
		w.trying = true
		// No observation waits for it, nor ends it: each try has its own end.
		go w.round(context.WithoutCancel(ctx), due, now, try)
	}
	return list
}

// due returns the links to be tried now. The mutex is held.
func (w *linkWatch) due(now time.Time) (due []*link) {
	if w.trying {
		return nil
	}
	for _, l := range w.links {
		period := linkInterval
		if l.why != "" {
			period = linkRetryInterval
		}
		if now.Sub(l.tried) >= period || now.Before(l.tried) {
			due = append(due, l)
		}
	}
	return due
}

func (w *linkWatch) round(ctx context.Context, due []*link, now time.Time,
	try func(ctx context.Context, urls []string) error) {
	var all sync.WaitGroup
	for _, l := range due {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, linkTimeout)
			defer cancel()
			err := try(ctx, l.urls)
			w.mu.Lock()
			defer w.mu.Unlock()
			l.tried = now
			if errors.Is(err, errNotTried) {
				return
			}
			l.known, l.why = true, ""
			if err != nil {
				l.why = cmp.Or(unanswered(err), "unknown error")
			} else {
				l.up = now
			}
		})
	}
	all.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trying = false
}

// unanswered is why a peer port did not answer, in plain words where it is the connection.
func unanswered(err error) string {
	if asked, ok := errors.AsType[*url.Error](err); ok {
		return netreason.Plain(asked.Err.Error())
	}
	return err.Error()
}

// errNotTried says that the node had nothing to try with: it says nothing of the port.
var errNotTried = errors.New("the peer port was not tried")

// tryPeer asks a member at its peer port for its version, over a connection of its own.
func (o *Observer) tryPeer(ctx context.Context, urls []string) error {
	p, err := o.peer()
	if err != nil {
		return fmt.Errorf("%w: %w", errNotTried, err)
	}
	defer p.Close()
	return anyURL(urls, func(u string) error {
		_, err := p.Version(ctx, u)
		return err
	})
}
