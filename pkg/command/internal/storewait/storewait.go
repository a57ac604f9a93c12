// Package storewait opens the stores of commands, so that a person who waits for one knows for
// what.
package storewait

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// Open opens the store at a location. Where it does not answer for [cli.ProgressDelay], w is notified, with
// its endpoint where it has one; at once, and whenever the reason is another one, where it is asked
// in vain. Limit is the --timeout of the command, 0 if it has none.
func Open(ctx context.Context, location string, limit time.Duration, w io.Writer) (*store.Store, error) {
	s, err := store.Open(ctx, location)
	if err != nil {
		return nil, err
	}
	after, end := cli.ProgressDelay, ""
	if limit > 0 {
		after, end = min(after, limit/2), fmt.Sprintf("; --timeout is %s", limit)
	}
	s.OnSlow(after, func(server, why string) {
		if server != "" {
			server = " (" + server + ")"
		}
		said := fmt.Sprintf("has not answered for %s", after)
		if why != "" {
			said = "cannot be used at present, and is asked again: " + why
		}
		fmt.Fprintf(w, "note: %s\n", cli.Plain(fmt.Sprintf("the store %s%s %s%s", store.Shown(location), server, said, end)))
	})
	return s, nil
}
