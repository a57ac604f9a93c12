// Package handover hands the etcd of one machine from etcdadm, which a person
// runs, to the daemon etcd-manager, and back.
//
// Machines are handed over one by one, while the others serve. The data is not
// copied: the directory "member", which holds all of it, is renamed, and for a
// moment the machine's member is away, as in a restart. What is to be done is
// decided by package machine, of which the two directions are goals, as it is for
// etcdadm join: this package observes both sides of the machine ([machine.Handover]),
// carries out the first step, and observes again, until nothing is left. So a
// handover that was killed anywhere is simply run again, and a dry run is the plan.
//
// # Never two processes on one data directory
//
// Before anything is stopped, all that was decided is written to a journal
// beside the data. Then, to the daemon: etcd is stopped and disabled; what
// starts it is deleted; the data moves; the daemon's node state says that it is
// to be run. The daemon's lock on its data directory is held all the time. So
// at each point at most one of the two sides finds both the data and the order
// to run it: before the move the daemon has neither, after the move etcdadm
// has neither. A daemon that is started between the last two steps finds data
// that nothing has it run, and leaves it alone. Back it is the mirror
// image: the order to run is taken away from the daemon, the data moves,
// etcdadm writes its files and starts. Besides, the database's own lock, which
// etcd holds as long as it lives, is checked before the data moves.
//
// # The lease voters
//
// A daemon coordinates when a majority of the lease voters vote for it, and the
// lease voters are named by a record on each node's disk. If the machines of one
// cluster began with different records, there might be two majorities. A daemon
// therefore never makes up a record: it gets one when a cluster is bootstrapped, or
// from a coordinator. A cluster that is handed over has neither. So the first
// machine that is handed over decides, once and for all machines, and the
// decision is not in anybody's head: it is the incarnation record in the control
// store, created only if there is none, as in a bootstrap. Its voters are those of
// the member list as the quorum reports it, without a learner or a member that has
// never started, while all of them are healthy. Every machine takes the lease voters
// from that record, and not from the list that it sees itself:
//
//   - Two machines that are handed over at the same time try to create the same
//     record; one of them wins, the other one reads it.
//   - If members were changed by hand between two handovers, the lists differ and
//     the record does not. A machine that is a voter by now and is not in the
//     record gets no lease voters record at all. Without one it votes for nobody, and
//     the coordinator takes it in, as it does with a node that has lost its record.
//   - A node that has a record of the incarnation on its disk keeps it: it is what
//     the node has voted by, and a later one.
//   - Once a coordinator has been at work in the incarnation (the marker in the
//     store is not older than the record), the lease voters may have changed, one by
//     one. From then on nobody begins with the record of the beginning.
//
// Going by the list on the machine instead, as the files of the existing
// etcd-manager have one, would not do: each may be of another age, which is why
// the daemon does not.
//
// The store must be the same one for all machines. Where it is a directory on
// each of them, the decisions are as good as the operator's word that members
// do not change between the first handover and the last.
package handover
