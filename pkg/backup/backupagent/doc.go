// Package backupagent backs up an etcd cluster on a schedule, whoever runs that
// cluster. It changes nothing in etcd: it asks members for their status and the
// member list, and reads snapshots.
//
// Any number of agents may work on one cluster and one store. What is due is
// decided by the newest backup in the store, whoever took it; whose rank it is,
// by [decide]; and that no two work at the same time, by a claim in the store
// (see claims).
package backupagent
