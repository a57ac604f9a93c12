package daemon

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
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
	refusalBurst    = 20
	refusalInterval = 10 * time.Second
)

// maxText bounds what is written of an order, which its sender chose.
const maxText = 1 << 10

// cut returns s, or its beginning and an ellipsis.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}

// accepted says that an order is being carried out: what a daemon was doing
// when it died must be known.
func (b *orderBook) accepted(ctx context.Context, from rpc.Caller, e plan.Order) {
	b.log.Log(ctx, slog.LevelInfo, "order accepted", about(from, e)...)
}

func about(from rpc.Caller, e plan.Order) []any {
	return []any{
		"from", cut(from.String()), "role", string(from.Role), "proven", from.Authenticated, "term", e.Term,
		"line", cut(plan.Line(e.Operation)),
	}
}

// note writes an order down. refused says that the caller was not entitled to it.
func (b *orderBook) note(ctx context.Context, from rpc.Caller, e plan.Order, began time.Time, err error,
	refused bool) {
	level, text := slog.LevelInfo, "order obeyed"
	var more []any
	if refused {
		dropped, ok := b.mayReport()
		if !ok {
			return
		}
		level, text = slog.LevelError, "order refused: the caller may not give it"
		more = []any{"more", dropped}
	} else if err != nil {
		level, text = slog.LevelWarn, "order failed"
	}
	entry := store.HistoryEntry{
		At: began, Term: e.Term, By: from.Name, Line: cut(plan.Line(e.Operation)), Why: cut("ordered by " + from.String()),
		Took: b.now().Sub(began),
	}
	attrs := about(from, e)
	if err != nil {
		entry.Error = cut(err.Error())
		attrs = append(attrs, "error", entry.Error)
	}
	attrs = append(attrs, more...)
	b.log.Log(ctx, level, text, attrs...)
	b.keep(entry)
}

// mayReport reports whether one more refusal is written, and how many were not
// since the last.
func (b *orderBook) mayReport() (dropped int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if b.filled.IsZero() {
		b.left = refusalBurst
	} else {
		b.left = min(refusalBurst, b.left+float64(now.Sub(b.filled))/float64(refusalInterval))
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
