// Package drill finds out whether a backup is worth something, before it is
// needed: [Verify] fetches one, checks all that is known of it and walks
// through the database, and [Drill] restores it for a trial and starts a real
// etcd on the result.
//
// Both work in a temporary directory of their own, and write what they found
// out beside the backup. They never touch a member: the etcd of a trial runs at
// the lowest priority, listens on unix sockets in that directory only, and dies
// with the process that started it.
package drill
