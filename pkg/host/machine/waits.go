package machine

import (
	"fmt"
	"strings"
)

// Waits is what to say of a hold that is waited for. Of a join that nobody answers it says what may be
// wrong, for how long it is tried, and how to end sooner.
func Waits(goal Goal, cfg Config, why *Hold) string {
	if why.Reason != ClusterUnreachable || goal.Action != Join {
		return why.Text
	}
	likely := "is the address right?"
	switch {
	case strings.Contains(why.Text, "no leader"):
		likely = "are enough of its voters running, and do they reach each other?"
	case strings.Contains(why.Text, "nothing listens"), strings.Contains(why.Text, "connection refused"):
		likely = "is this the client port of a member that runs (2379 by default)?"
	case strings.Contains(why.Text, "no connection within"):
		likely = "is the address right, and the client port open for this machine?"
	case strings.Contains(why.Text, "no such host"):
		likely = "is the name right?"
	}
	return fmt.Sprintf("%s; %s It is tried for %s (--membership-timeout); Ctrl-C ends it, and --retry=false tries once",
		why.Text, likely, cfg.Timeouts.Membership)
}
