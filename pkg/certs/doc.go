// Package certs loads certificate authorities, issues the certificates of the
// daemon and of etcd from them, keeps those in files, and renews them while
// the process runs.
//
// The names of the files and the contents of the certificates are those of
// the existing etcd-manager, so that nodes of both talk to each other and a
// node can go from one to the other and back.
//
// The second half of the package is the PKI of a machine that is run by hand,
// with the files of the existing etcdadm: [ObserveMachine] says what is there,
// [CreateMachineCA] and [IssueMachine] make what is not, [Expiries], [RenewFiles],
// [GenerateCSRs] and [RotateCA] keep it alive. These functions change one
// directory, each under a lock, and any of them can be run again after a crash.
package certs
