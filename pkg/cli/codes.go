package cli

import (
	"fmt"
	"strings"
)

// A Code is a way in which a program ends. The number is its exit code; scripts
// may depend on the number and the kind, not on texts.
type Code struct {
	Number int
	// Kind names it in errors that are printed as JSON.
	Kind string
	// Text says what happened, and what a script may conclude from it.
	Text string
}

// The kinds of [Codes].
const (
	KindDone             = "done"
	KindFailed           = "failed"
	KindUsage            = "usage"
	KindHeld             = "held"
	KindStale            = "stale"
	KindQuorumLost       = "quorum-lost"
	KindStoreUnreachable = "store-unreachable"
	KindRefused          = "refused"
	KindDegraded         = "degraded"
	KindUnknown          = "unknown"
	KindInterrupted      = "interrupted"
)

// Codes returns every way in which a program of this project ends, by number.
// It is the only table of them: the programs, docs/exit-codes.md and the tests
// read it.
func Codes() []Code { return codes }

var codes = []Code{
	{0, KindDone, "What was asked is done, or there was nothing to do."},
	{1, KindFailed, "It failed, for a reason without a code of its own. The message says which."},
	{2, KindUsage, "The command line is wrong: an unknown command or flag, a missing or invalid value. Nothing " +
		"was tried."},
	{3, KindHeld, "Nothing is safe to do: the cluster is not what the spec says and no step is known to be safe, or " +
		"the requested step is not. That step was not begun."},
	{4, KindStale, "The cluster is not as the command expects (--expect-...). Nothing was changed; observe again and " +
		"plan again."},
	{5, KindQuorumLost, "Fewer voters are healthy than a majority needs, or would be after the step."},
	{6, KindStoreUnreachable,
		"The control and backup store did not answer, or refused. What it holds is unknown."},
	{7, KindRefused, "Not permitted: a certificate was not accepted, somebody else holds the coordinator's lease, " +
		"the store is of no cluster, or a safeguard needs --force."},
	{8, KindDegraded, "status --check: a majority of the voters serves, and something is wrong: also where all serve, and " +
		"the daemon of one does not answer. The message says what."},
	{9, KindUnknown, "The state of the cluster is unknown: no daemon answers, the store is of no cluster, what " +
		"etcd-manager-ctl plan and explain go by is STALE or, with status --check, no member answers, no report was found, " +
		"or only one that is STALE."},
	{130, KindInterrupted, "A signal ended it early. What it had begun may or may not be done; to run it " +
		"again is safe."},
}

// codeOf returns the code of a kind; ok is false for one that is not in the
// table.
func codeOf(kind string) (Code, bool) {
	for _, c := range codes {
		if c.Kind == kind {
			return c, true
		}
	}
	return Code{}, false
}

// CodeLines returns the table for help texts, one code a line.
func CodeLines() string {
	var b strings.Builder
	for _, c := range codes {
		fmt.Fprintf(&b, "  %3d  %s\n", c.Number, c.Kind)
	}
	return b.String()
}
