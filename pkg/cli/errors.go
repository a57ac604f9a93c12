package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A UsageError says what is wrong with a command line.
type UsageError struct {
	Text string
	// Next is the hint, empty for none.
	Next string
}

// Usagef returns a [UsageError] without a hint.
func Usagef(format string, args ...any) error {
	return &UsageError{Text: fmt.Sprintf(format, args...)}
}

func (e *UsageError) Error() string { return e.Text }

// Hint says what to do about it.
func (e *UsageError) Hint() string { return e.Next }

// A HeldError says that nothing was done because nothing is safe to do.
type HeldError struct{ Holds []plan.Hold }

func (e *HeldError) Error() string {
	texts := make([]string, len(e.Holds))
	for i, h := range e.Holds {
		texts[i] = fmt.Sprintf("%s: %s", h.Reason, h.Text)
	}
	return "nothing is safe to do: " + strings.Join(texts, "; ")
}

// Hint is what the explanation of the first reason advises.
func (e *HeldError) Hint() string {
	for _, h := range e.Holds {
		if doc, ok := plan.Explain(h.Reason); ok {
			return doc.Do
		}
	}
	return ""
}

// A RefusedError says that the one who asks may not do this.
type RefusedError struct {
	Text string
	// Next is the hint, empty for none.
	Next string
}

func (e *RefusedError) Error() string { return e.Text }

// Hint says what to do about it.
func (e *RefusedError) Hint() string { return e.Next }

// WithHint returns err with a hint: the next command to run, or what a person
// should check. A nil error stays nil.
func WithHint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &hinted{error: err, hint: hint}
}

type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }
func (e *hinted) Hint() string  { return e.hint }

// An interruptedError says that a signal came first.
type interruptedError struct{ error }

func (e *interruptedError) Unwrap() error { return e.error }

func (e *interruptedError) Error() string {
	if e.error.Error() == context.Canceled.Error() {
		return "interrupted"
	}
	return "interrupted: " + e.error.Error()
}

// Classify returns the code that a program ends with after err; nil is done.
// An error of another package gets a code other than "failed" by its type, or
// by having a method Kind() string that returns a kind of the table.
func Classify(err error) Code {
	c, _ := codeOf(kindOf(err))
	return c
}

func kindOf(err error) string {
	var (
		signal  *interruptedError
		usage   *UsageError
		held    *HeldError
		refused *RefusedError
		stale   *plan.StaleError
		term    *lease.StaleError
		remote  *rpc.Error
		unsafe  *plan.UnsafeError
		kinded  interface{ Kind() string }
	)
	switch {
	case err == nil:
		return KindDone
	case errors.As(err, &signal):
		return KindInterrupted
	case errors.As(err, &kinded) && known(kinded.Kind()):
		return kinded.Kind()
	case errors.As(err, &usage):
		return KindUsage
	case errors.As(err, &held) &&
		slices.ContainsFunc(held.Holds, func(h plan.Hold) bool { return h.Reason == plan.QuorumLost }):
		return KindQuorumLost
	case errors.As(err, &held):
		return KindHeld
	case errors.As(err, &refused):
		return KindRefused
	case errors.As(err, &stale), errors.As(err, &term):
		return KindStale
	case errors.As(err, &unsafe) && unsafe.Invariant == "quorum":
		return KindQuorumLost
	case errors.As(err, &unsafe):
		return KindHeld
	case errors.Is(err, store.ErrUnreachable), errors.Is(err, store.ErrDenied):
		return KindStoreUnreachable
	case errors.As(err, &remote) && remoteKinds[remote.Kind] != "":
		return remoteKinds[remote.Kind]
	case errors.Is(err, context.Canceled):
		return KindInterrupted
	}
	return KindFailed
}

// remoteKinds says what the kind of a daemon's error is to the one who asked.
// The others have no code of their own.
var remoteKinds = map[rpc.Kind]string{
	rpc.Stale:   KindStale,
	rpc.Refused: KindRefused,
	rpc.Held:    KindHeld,
}

func known(kind string) bool {
	_, ok := codeOf(kind)
	return ok
}

// permissionHint is for who may not use a file and is not root: what else might be the matter
// with the file is not known then. It is empty where that is not the problem, and for a store's
// files, whose hint names the store.
func permissionHint(err error, euid int) string {
	var file *fs.PathError
	if euid == 0 || errors.Is(err, store.ErrDenied) || !errors.As(err, &file) || !errors.Is(file, fs.ErrPermission) {
		return ""
	}
	return "run it as root, or as a user who may use " + file.Path
}

// hintOf returns the outermost hint in err, or the one that its kind has, or
// "".
func hintOf(err error) string {
	if hint := permissionHint(err, os.Geteuid()); hint != "" {
		return hint
	}
	if hint := rpc.HintOf(err); hint != "" {
		return hint
	}
	var unsafe *plan.UnsafeError
	switch kind := kindOf(err); {
	case kind == KindInterrupted:
		return ""
	case kind == KindStale:
		return "observe again: etcdadm plan"
	case errors.As(err, &unsafe) && unsafe.Ports:
		return "open the peer port between all members, in both directions"
	case errors.As(err, &unsafe) && unsafe.Invariant == "quorum":
		return "repair the unhealthy voters first, see which: etcdadm status"
	case errors.As(err, &unsafe) && unsafe.Invariant == "backup":
		return "etcdadm backup take --node=NODE --reason=request"
	case errors.As(err, &unsafe) && unsafe.Invariant == "peer-port":
		return "open the peer port between all members, in both directions; to go on without: run it again " +
			"with --accept-unreached=NAME, for the voter that the text names"
	case errors.As(err, &unsafe):
		return "see the steps that are safe now: etcdadm plan"
	case kind == KindStoreUnreachable:
		return "check --backup-store and the network to the store"
	}
	return ""
}
