package backupagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/etcdadm/etcdadm/pkg/store"
)

// claimPrefix is where claims are in the store. The existing tools, and the
// daemon, ignore what is there.
const claimPrefix = "control/backup-claims/"

// Objects is the part of a store that claims are kept in.
type Objects interface {
	Get(ctx context.Context, key string) ([]byte, error)
	Create(ctx context.Context, key string, b []byte) (bool, error)
	Delete(ctx context.Context, key string) error
}

// A claim is one link of a chain: control/backup-claims/KEY/1, 2 and so on. The
// last link says who takes the backup KEY, and until when that holds. Whoever
// wants to take it adds a link, which only one of several can; whoever has it
// adds one to go on having it. No link is ever written twice, so that this works on a
// store that denies overwriting, and nothing but reading and creating is
// needed. Each link lasts as long again as the work has already taken: a
// backup of an hour has eight. At the end the holder deletes the chain, where
// the store lets it.
type claim struct {
	By    string    `json:"by"`
	Until time.Time `json:"until"`
	// Done says that the backup was taken: for those that cannot list the store.
	Done bool `json:"done,omitempty"`
}

// claims makes claims for one agent.
type claims struct {
	store Objects
	// id is the agent's, and of this life of it.
	id string
	// lease is how long the first link lasts.
	lease time.Duration
	clock func() time.Time
}

// A busyError says that another agent has the claim.
type busyError struct{ claim }

func (e *busyError) Error() string {
	if e.Done {
		return e.By + " has taken this backup"
	}
	return fmt.Sprintf("%s is taking this backup, by its claim until %s", e.By, e.Until.UTC().Format(time.RFC3339))
}

// maxLinks bounds the walk along a chain. Links that double last forever at
// forty; those of agents that fail again and again do not.
const maxLinks = 1000

// A held claim is one that this agent has.
type held struct {
	claims
	key   string
	links int
	began time.Time
	until time.Time
	// lost says that another agent has taken it over.
	lost bool
}

// take claims a backup. The error is a busyError if another agent has it.
// A chain whose last link is Done counts as free for an agent that has seen in
// the store's list that there is no backup.
func (c claims) take(ctx context.Context, key string, now time.Time, listed bool) (*held, error) {
	var last claim
	for n := 1; n <= maxLinks; n++ {
		l, there, err := c.read(ctx, key, n)
		if err != nil {
			return nil, err
		}
		if there {
			last = l
			continue
		}
		if last.Done && !listed || !last.Done && now.Before(last.Until) {
			return nil, &busyError{last}
		}
		h := &held{claims: c, key: key, links: n - 1, began: now}
		added, err := h.add(ctx, claim{By: c.id, Until: now.Add(c.lease)})
		if err != nil {
			return nil, err
		}
		if added {
			return h.confirm(ctx, last)
		}
		// Another agent was faster: its link is what is to be checked.
		n--
	}
	return nil, fmt.Errorf("the claim %s%s has %d links", claimPrefix, key, maxLinks)
}

// confirm checks whether the chain that a link was added to is still there. Its
// holder may have been deleting it, from its first link on: then what was added
// hangs in the air, and yet another agent may have begun a new chain.
func (h *held) confirm(ctx context.Context, before claim) (*held, error) {
	if h.links == 1 {
		return h, nil
	}
	_, begins, err := h.read(ctx, h.key, 1)
	now, there, err2 := h.read(ctx, h.key, h.links-1)
	if err = errors.Join(err, err2); err == nil && begins && there && now.By == before.By &&
		now.Until.Equal(before.Until) {
		return h, nil
	}
	_ = h.store.Delete(context.WithoutCancel(ctx), h.link(h.key, h.links)) // else it runs out
	if err != nil {
		return nil, err
	}
	return nil, &busyError{claim{By: "another agent", Until: h.began.Add(minRetryDelay)}}
}

func (c claims) link(key string, n int) string { return claimPrefix + key + "/" + strconv.Itoa(n) }

// read returns a link. One that cannot be understood holds nobody back.
func (c claims) read(ctx context.Context, key string, n int) (l claim, there bool, err error) {
	b, err := c.store.Get(ctx, c.link(key, n))
	switch {
	case errors.Is(err, store.ErrAbsent):
		return claim{}, false, nil
	case err != nil && !errors.Is(err, store.ErrGarbage):
		return claim{}, false, err
	case err != nil || json.Unmarshal(b, &l) != nil:
		return claim{}, true, nil
	}
	return l, true, nil
}

// add adds a link, and reports whether it is this agent's.
func (h *held) add(ctx context.Context, l claim) (bool, error) {
	b, err := json.Marshal(l)
	if err != nil {
		return false, err
	}
	added, err := h.store.Create(ctx, h.link(h.key, h.links+1), b)
	if added {
		h.links++
		h.until = l.Until
	}
	return added, err
}

// errLost says that another agent has taken the claim over.
var errLost = errors.New("another agent has taken over this backup")

// keep goes on having the claim until ctx ends, or another agent has it: then it
// returns errLost. A store that does not answer is asked again.
func (h *held) keep(ctx context.Context) error {
	for {
		left := h.until.Sub(h.clock())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(left/2, h.lease/10)):
		}
		now := h.clock()
		lease := max(h.lease, now.Sub(h.began))
		added, err := h.add(ctx, claim{By: h.id, Until: now.Add(lease)})
		if err == nil && !added {
			// An answer that was lost may have been ours.
			last, _, err := h.read(ctx, h.key, h.links+1)
			if err == nil && last.By != h.id {
				h.lost = true
				return errLost
			}
			if err == nil {
				h.links++
				h.until = last.Until
			}
		}
	}
}

// release gives the claim back, unless another agent may have taken it over: then
// the chain is that one's. Where the backup was taken and others may not see that
// in a list, it says so instead.
func (h *held) release(ctx context.Context, done, listed bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if done && !listed {
		// If it cannot be written, another agent takes a backup too many.
		_, _ = h.add(ctx, claim{By: h.id, Done: true})
		return
	}
	if h.lost || h.clock().After(h.until) {
		return
	}
	// The first link at first: a chain of which only the end were left could not be
	// seen, and one that cannot be deleted runs out.
	for n := 1; n <= h.links; n++ {
		if h.store.Delete(ctx, h.link(h.key, n)) != nil {
			break
		}
	}
}
