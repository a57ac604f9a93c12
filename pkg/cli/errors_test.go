package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/store"
)

func TestTableOfCodes(t *testing.T) {
	seen := map[int]string{}
	kinds := map[string]bool{}
	last := -1
	for _, c := range Codes() {
		if c.Number <= last || c.Number > 255 {
			t.Errorf("code %d follows %d", c.Number, last)
		}
		last = c.Number
		if seen[c.Number] != "" || kinds[c.Kind] {
			t.Errorf("%d (%s) is there twice", c.Number, c.Kind)
		}
		seen[c.Number], kinds[c.Kind] = c.Kind, true
		if !strings.HasSuffix(c.Text, ".") {
			t.Errorf("the text of %d is not a sentence: %q", c.Number, c.Text)
		}
	}
	// Scripts depend on these.
	want := map[int]string{
		0: KindDone, 1: KindFailed, 2: KindUsage, 3: KindHeld, 4: KindStale, 5: KindQuorumLost,
		6: KindStoreUnreachable, 7: KindRefused, 8: KindDegraded, 9: KindUnknown, 130: KindInterrupted,
	}
	for number, kind := range want {
		if seen[number] != kind {
			t.Errorf("code %d is %q, want %q", number, seen[number], kind)
		}
	}
	if len(seen) != len(want) {
		t.Errorf("%d codes, want %d", len(seen), len(want))
	}
}

// remote is an error of a package that cli does not know.
type remote struct{ kind string }

func (e remote) Error() string { return "remote" }
func (e remote) Kind() string  { return e.kind }

// wrapped is an error with a kind around another.
type wrapped struct {
	remote
	inner error
}

func (e wrapped) Unwrap() error { return e.inner }

func TestErrorsHaveCodesAndHints(t *testing.T) {
	quorum := &plan.UnsafeError{Invariant: "quorum", Text: "x"}
	for _, c := range []struct {
		name string
		err  error
		code int
		hint string // a part of it; "-" for none
	}{
		{"none", nil, 0, "-"},
		{"any", errors.New("x"), 1, "-"},
		{"any with a hint", WithHint(errors.New("x"), "do y"), 1, "do y"},
		{"usage", Usagef("x"), 2, "-"},
		{"usage with a hint", &UsageError{Text: "x", Next: "try y"}, 2, "try y"},
		{"held", &HeldError{Holds: []plan.Hold{{Reason: plan.Paused}}}, 3, "resume"},
		{"held for want of a majority", &HeldError{Holds: []plan.Hold{{Reason: plan.DiskHung}, {Reason: plan.QuorumLost}}}, 5,
			"disk"},
		{"held for a reason of another release", &HeldError{Holds: []plan.Hold{{Reason: "new"}}}, 3, "-"},
		{"held without a reason", &HeldError{}, 3, "-"},
		{"no backup", &plan.UnsafeError{Invariant: "backup"}, 3, "backup take"},
		{"a peer port", &plan.UnsafeError{Invariant: "peer-port"}, 3, "--accept-unreached=NAME"},
		{"peer ports for a majority", &plan.UnsafeError{Invariant: "quorum", Ports: true}, 5, "open the peer port"},
		{"other invariant", &plan.UnsafeError{Invariant: "one-change"}, 3, "etcdadm plan"},
		{"stale", &plan.StaleError{Want: "3 voters", Got: "2"}, 4, "etcdadm plan"},
		{"quorum", quorum, 5, "unhealthy voters"},
		{"store", store.ErrUnreachable, 6, "--backup-store"},
		{"store, late", errors.Join(store.ErrUnreachable, context.DeadlineExceeded), 6, "--backup-store"},
		{"refused", &RefusedError{Text: "x", Next: "--force"}, 7, "--force"},
		{"cancelled", context.Canceled, 130, "-"},
		{"deadline", context.DeadlineExceeded, 1, "-"},
		{"kind of the table", remote{KindRefused}, 7, "-"},
		{"stale by kind", remote{KindStale}, 4, "etcdadm plan"},
		{"kind goes before what it wraps", wrapped{remote{KindRefused}, &plan.StaleError{}}, 7, "-"},
		{"lower term", &lease.StaleError{Want: 3, Seen: 4}, 4, "etcdadm plan"},
		{"daemon: stale", &rpc.Error{Kind: rpc.Stale, Text: "x"}, 4, "etcdadm plan"},
		{"daemon: refused", &rpc.Error{Kind: rpc.Refused, Text: "x", Hint: "ask ann"}, 7, "ask ann"},
		{"daemon: held", &rpc.Error{Kind: rpc.Held, Text: "x"}, 3, "-"},
		{"daemon: unreachable", &rpc.Error{Kind: rpc.Unreachable, Text: "x"}, 1, "-"},
		{"kind of no table", remote{"corrupt"}, 1, "-"},
		{"hint goes before that of the kind", WithHint(quorum, "wait"), 5, "wait"},
		{"absent", store.ErrAbsent, 1, "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.err
			if err != nil {
				err = fmt.Errorf("outer: %w", err)
			}
			if got := Classify(err); got.Number != c.code {
				t.Errorf("code is %d, want %d", got.Number, c.code)
			}
			got := hintOf(err)
			if c.hint == "-" && got != "" || c.hint != "-" && !strings.Contains(got, c.hint) {
				t.Errorf("hint is %q, want %q in it", got, c.hint)
			}
		})
	}
}

func TestHintOfNoError(t *testing.T) {
	if err := WithHint(nil, "x"); err != nil {
		t.Errorf("nil became %v", err)
	}
}

func TestHeldErrorNamesEveryHold(t *testing.T) {
	err := &HeldError{Holds: []plan.Hold{{Reason: plan.Grace, Text: "c is down"}, {Reason: plan.NoSpare, Text: "no node"}}}
	want := "nothing is safe to do: grace: c is down; no-spare: no node"
	if err.Error() != want {
		t.Errorf("error is %q, want %q", err, want)
	}
}

// Who may not read a file is advised to be root, and not what helps where the file is wrong.
func TestHintForWhoIsNotRoot(t *testing.T) {
	denied := &fs.PathError{Op: "open", Path: "/etc/x", Err: syscall.EACCES}
	absent := &fs.PathError{Op: "open", Path: "/etc/x", Err: syscall.ENOENT}
	for _, c := range []struct {
		name string
		err  error
		euid int
		want string
	}{
		{"a user", WithHint(fmt.Errorf("read it: %w", denied), "delete it"), 1000,
			"run it as root, or as a user who may use /etc/x"},
		{"root", denied, 0, ""},
		{"no file", absent, 1000, ""},
		{"no error of a file", fs.ErrPermission, 1000, ""},
		{"a store", fmt.Errorf("%w: %w", store.ErrDenied, denied), 1000, ""},
	} {
		if got := permissionHint(c.err, c.euid); got != c.want {
			t.Errorf("%s: the hint is %q, want %q", c.name, got, c.want)
		}
	}
}
