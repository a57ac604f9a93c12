// Package storewait opens the stores of commands, so that who waits for one knows for what.
package storewait

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// reportAfter is how long a store is waited for without a word.
const reportAfter = 3 * time.Second

// Open opens the store at a location. Where it does not answer for long, w is notified once, with
// its endpoint where it has one. Limit is the --timeout of the command, 0 if it has none.
func Open(ctx context.Context, location string, limit time.Duration, w io.Writer) (*store.Store, error) {
	s, err := store.Open(ctx, location)
	if err != nil {
		return nil, err
	}
	after, end := reportAfter, ""
	if limit > 0 {
		after, end = min(reportAfter, limit/2), fmt.Sprintf("; --timeout is %s", limit)
	}
	s.OnSlow(after, func(server string) {
		if server != "" {
			server = " (" + server + ")"
		}
		fmt.Fprintf(w, "note: %s\n", cli.Plain(fmt.Sprintf("the store %s%s has not answered for %s%s",
			store.Shown(location), server, after, end)))
	})
	return s, nil
}
