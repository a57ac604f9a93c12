package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// A terminal is what the demonstration is shown on. Colours are for people.
type terminal struct {
	mu     sync.Mutex
	w      io.Writer
	colour bool
}

func newTerminal(f *os.File) *terminal {
	info, err := f.Stat()
	return &terminal{w: f, colour: err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == ""}
}

// The colours, as the terminal's codes.
const (
	bold, dim, red, green, blue = "1", "2", "31", "32", "34"
)

func (t *terminal) print(colour, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.colour {
		text = "\x1b[" + colour + "m" + text + "\x1b[0m"
	}
	fmt.Fprintln(t.w, text)
}

// step begins a step of the demonstration.
func (t *terminal) step(title string) { t.print(bold, "\n== "+title) }

// command shows what the person at the keyboard does.
func (t *terminal) command(format string, args ...any) {
	t.print(blue, "$ "+fmt.Sprintf(format, args...))
}

// happened says what came of it.
func (t *terminal) happened(format string, args ...any) {
	t.print(green, "-> "+fmt.Sprintf(format, args...))
}

// plain shows what a program printed.
func (t *terminal) plain(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprint(t.w, text)
}

// A follower shows what the coordinator does while it does it.
type follower struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func (f *follower) stop() {
	f.cancel()
	<-f.done
}

// done is the daemon's log line about an operation.
var done = regexp.MustCompile(`level=(\w+) msg=(?:done|"operation failed") operation=("(?:[^"\\]|\\.)*") took=(\S+)`)

// follow shows the operations from the daemons' logs.
func (t *terminal) follow(ctx context.Context, c *harness.Cluster) *follower {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &follower{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		read := map[string]int{}
		tick := time.NewTicker(30 * time.Millisecond)
		defer tick.Stop()
		for {
			for _, n := range c.Nodes() {
				said := n.Said(read[n.Name])
				end := strings.LastIndexByte(said, '\n') + 1
				read[n.Name] += end
				for _, m := range done.FindAllStringSubmatch(said[:end], -1) {
					t.operation(n.Name, m[1], m[2], m[3])
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return f
}

func (t *terminal) operation(coordinator, level, quoted, took string) {
	line, err := strconv.Unquote(quoted)
	if err != nil {
		line = quoted
	}
	if d, err := time.ParseDuration(took); err == nil {
		took = d.Round(time.Millisecond).String()
	}
	colour, how := dim, ""
	if level != "INFO" {
		colour, how = red, "failed after "
	}
	t.print(colour, fmt.Sprintf("  %s: %s  # %s%s", coordinator, line, how, took))
}
