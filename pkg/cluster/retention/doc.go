// Package retention decides which backups to keep, and knows the names that
// backups have.
//
// Both are formats shared with the existing etcd-manager: a store may hold
// backups of either program, and either may delete what its rules let go. A
// name that cannot be parsed is therefore never deleted: it is not known to be
// a backup of an age.
//
// Nothing here reads a clock or touches a store.
package retention
