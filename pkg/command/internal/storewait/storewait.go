// Package storewait opens the stores of commands, so that a person who waits for one knows for
// what.
package storewait

import (
	"context"
	"fmt"
	"io"
	"os"
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

// newTime is how long a directory may take to be looked at: its file system may hang.
const newTime = time.Second

// New says what there is to say of a location whose directory the first write would make, empty for all
// others. The daemons say the same.
func New(location string) string {
	found := make(chan string, 1)
	go func() { found <- store.NewDirectory(location, os.Stat) }()
	select {
	case dir := <-found:
		if dir != "" {
			return store.NewDirectoryWarning(dir)
		}
	case <-time.After(newTime):
	}
	return ""
}
