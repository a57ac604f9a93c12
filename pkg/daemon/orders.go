package daemon

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/plan"
	"github.com/etcdadm/etcdadm/pkg/rpc"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// An orderBook writes down who has ordered what of this node: each order in the
// log and in the node's own list in the store. Refused ones are bounded in
// number, because anybody with a certificate can send them.
type orderBook struct {
	log *slog.Logger
	now func() time.Time
	// keep takes the entry for the store.
	keep func(store.HistoryEntry)

	mu sync.Mutex
	// left is how many refusals may still be written at filled; dropped counts
	// those that were not.
	left    float64
	filled  time.Time
	dropped int
}

const (
	refusalBurst = 20
	refusalEvery = 10 * time.Second
)

// note writes an order down. refused says that the caller was not entitled to it.
func (b *orderBook) note(ctx context.Context, from rpc.Caller, e rpc.Execution, began time.Time, err error, refused bool) {
	line := plan.Line(e.Operation)
	entry := store.HistoryEntry{
		At: began, Term: e.Term, By: from.Name, Line: line, Why: "ordered by " + from.String(), Took: b.now().Sub(began),
	}
	level, text := slog.LevelInfo, "order obeyed"
	attrs := []any{"from", from.String(), "role", string(from.Role), "proven", from.Authenticated, "term", e.Term, "line", line}
	if err != nil {
		entry.Error = err.Error()
		level, text = slog.LevelWarn, "order failed"
		attrs = append(attrs, "error", err)
	}
	if refused {
		dropped, ok := b.mayTell()
		if !ok {
			return
		}
		level, text = slog.LevelError, "order refused: the caller is not entitled to it"
		attrs = append(attrs, "more", dropped)
	}
	b.log.Log(ctx, level, text, attrs...)
	b.keep(entry)
}

// mayTell reports whether one more refusal is written, and how many were not
// since the last.
func (b *orderBook) mayTell() (dropped int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if b.filled.IsZero() {
		b.left = refusalBurst
	} else {
		b.left = min(refusalBurst, b.left+float64(now.Sub(b.filled))/float64(refusalEvery))
	}
	b.filled = now
	if b.left < 1 {
		b.dropped++
		return 0, false
	}
	b.left--
	dropped, b.dropped = b.dropped, 0
	return dropped, true
}
