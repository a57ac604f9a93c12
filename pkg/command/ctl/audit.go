package ctl

import (
	"context"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/shell"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// program is how the lines of this program begin in the history.
const program = "etcd-manager-ctl "

// maxOperator bounds the name of who asks, in characters.
const maxOperator = 100

// operator names who asks, as user@host.
func operator() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
		if sudo := os.Getenv("SUDO_USER"); sudo != "" && u.Uid == "0" {
			name = sudo
		}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	by := []rune(cli.Plain(name + "@" + host))
	return string(by[:min(len(by), maxOperator)])
}

// An act is what a user asks for: the words of the command line, and what there was before.
type act struct {
	words []string
	why   string
}

// flag adds a flag, unless its value is empty.
func (a *act) flag(name, value string) {
	if value != "" {
		a.words = append(a.words, "--"+name+"="+value)
	}
}

// asks is the act of queueing a request; words are those before the flags.
func asks(r cluster.Request, words ...string) act {
	a := act{words: words}
	if r.MemberCount != 0 {
		a.flag("member-count", strconv.Itoa(r.MemberCount))
	}
	a.flag("etcd-version", r.EtcdVersion.String())
	var lost []string
	for _, n := range r.Lost {
		lost = append(lost, string(n))
	}
	a.flag("lost", strings.Join(lost, ","))
	if r.SkipBackup {
		a.words = append(a.words, "--skip-backup")
	}
	a.flag("reason", r.Reason)
	return a
}

const (
	// recordTime is for how long a change waits for its record at most.
	recordTime = 2 * time.Second
	// afterTime is how long what is left to do on records may take after a change.
	afterTime = time.Second
)

// recorded is do, with a record in the history of who does it. The record comes first: no change
// is made of which nobody knows whose it is. Where the change fails, the record says so. A store
// that takes no record, or takes long, keeps nobody from pausing: the record has a quarter of the
// time that is left, and records that are too old are deleted after the change.
func (t *tool) recorded(ctx context.Context, cmd *cobra.Command, s *store.Store, a act, do func() error) error {
	e := store.HistoryEntry{
		At: t.now(), By: cluster.NodeName(operator()), Line: program + shell.Line(a.words), Why: a.why,
	}
	limit := recordTime
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/4)
	}
	unknown := within(ctx, limit, func(ctx context.Context) error { return s.RecordAudit(ctx, e) })
	if unknown != nil {
		warn(cmd, "the history does not show who asks for this: %v", unknown)
	}
	err := do()
	switch {
	case unknown != nil:
	case err != nil:
		e.Error = err.Error()
		// Also where ctx has ended. Without it the record says what is true: that this was asked for.
		_ = within(context.WithoutCancel(ctx), afterTime, func(ctx context.Context) error { return s.RecordAudit(ctx, e) })
	default:
		_ = within(ctx, afterTime, s.PruneAudit) // the next one goes on
	}
	return err
}

// within calls do with a deadline.
func within(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return do(ctx)
}

// put queues a request, as recorded; words are those of the command before its flags.
func (t *tool) put(ctx context.Context, cmd *cobra.Command, s *store.Store, r cluster.Request, words ...string) (
	queued cluster.Request, err error) {
	err = t.recorded(ctx, cmd, s, asks(r, words...), func() error {
		queued, err = s.PutRequest(ctx, r)
		return err
	})
	return queued, err
}
