// Package lease decides who may be the coordinator of a running cluster.
//
// A coordinator holds a lease in a term. The lease voters, which are the nodes
// that host the voters of the incarnation, grant it; a majority of them is
// needed. This package is the decision on both sides, without clock, network
// or disk: [Grantor] is the node that is asked, [Candidate] the daemon that
// asks. Both take "now" as a time.Time. Callers must pass values of time.Now
// unchanged, so that differences use the monotonic reading; only differences
// of one machine's clock are ever used. Package election
// (coordination/rpc/election) does the waiting.
//
// # Why two coordinators never act at the same time
//
// Same lease voters: two majorities share a node. That node refuses a second
// holder until its own clock says that the first lease is over, and the first
// holder counts its time from before it asked and stops [Margin] early. The
// margin covers clocks that run at different speeds, and a remembered grant
// blocks others for one whole [MaxTTL] after a restart, because the deadline
// itself is not on disk.
//
// Changing lease voters: a record is stamped with the term in which it was made
// and a number within that term, and it is the configuration entry of raft's
// single-server membership change, with the lease as raft's election.
//
//   - Two records that follow each other differ by at most one name, so their
//     majorities share a node.
//   - A node never grants on a record older than its own. A record that a
//     majority has adopted therefore ends every older one.
//   - A record is adopted only from the holder of the term in its stamp.
//   - A new holder first stamps the record it was elected with again, in its
//     own term, and is not a holder before a majority has adopted that. This is
//     the repair for the error in single-server changes that Diego Ongaro
//     published in 2015 (raft-dev, "bug in single-server membership changes"):
//     without it, two unfinished changes of different terms can both get a
//     majority.
//   - While a change is not finished, each round of the holder needs a majority
//     of the old and of the new names.
//
// # Who may have it
//
// A node grants to lease voters only: to those in its own record, to itself, to who
// has the term already, and to a person whose certificate says that they are an
// operator. What a candidate's record says of the candidate does not count, or
// whoever can call could make itself a lease voter. This costs no availability: of
// any majority that is left, the node whose record is the oldest was a lease voter
// before all the others' records were made, so all of them grant to it.
//
// A node that obeys orders holds them to the lease too: see [Claim.Proven].
//
// What the lease cannot do: a machine that is suspended as a whole may have a
// monotonic clock that stands still, so a holder could wake up believing. An
// executor therefore refuses a term lower than the highest it has seen, see
// [Durable.Witness].
package lease
