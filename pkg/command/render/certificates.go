package render

import (
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// certificateWarningTime is how long before its end a certificate is reported, as in the alert
// on it: a daemon renews its own long before.
const certificateWarningTime = 14 * 24 * time.Hour

// expired says that a node that answers has a certificate whose time is over.
func expired(n cluster.Node, now time.Time) bool {
	return n.Reachable && !n.CertNotAfter.IsZero() && now.After(n.CertNotAfter)
}

// certificates reports nodes with a certificate that has expired or soon will.
func (p *page) certificates(obs cluster.Observation) (rows [][]string) {
	for _, n := range obs.Nodes {
		left := n.CertNotAfter.Sub(p.now)
		switch {
		case expired(n, p.now):
			rows = append(rows, []string{string(n.Name), "expired " + Age(-left) + ", " + stamp(n.CertNotAfter)})
		case n.Reachable && !n.CertNotAfter.IsZero() && left < certificateWarningTime:
			rows = append(rows, []string{string(n.Name), "the first expires in " + span(left) + ", " + stamp(n.CertNotAfter)})
		}
	}
	return rows
}
