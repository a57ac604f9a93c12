// Package machine decides what to do on one machine whose etcd is run by hand:
// what "etcdadm init", "join", "reset" and "remove" are made of.
//
// It is the machine's side of package plan, and works the same way. The spec is
// one value ([Config] and [Goal]), the world is one value ([Observation]), and
// one pure function stands between them: [Next] returns the first step that is
// to be done, or what holds it back. Carrying a step out and observing again,
// until nothing is left, is the whole command; predicting it instead of doing
// it is a dry run. So a command that was killed anywhere is simply run again.
//
// Steps that change the cluster's membership are the operations of package
// plan, held to the same invariants.
package machine
