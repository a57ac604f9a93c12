//go:build e2e

// Package systemd runs the programs on machines: Linux containers that Docker
// boots from a Debian base, with systemd as their first process, an address of
// their own in a network that leads nowhere, a disk that survives a reboot and
// a power cut, and nothing that Docker does for ordinary containers.
//
// cloud-init is in the machines, and off until a test gives it user data.
//
// [Start] makes machines for one test, with etcdadm installed and release
// archives of etcd in etcdadm's cache, as an image of a machine would have
// them. The archive that the machines come from is made by setup.sh; where it
// or Docker is missing, [Start] skips the test.
//
// Machines share the kernel and its limits. On a host without
// CAP_SYS_RESOURCE systemd cannot raise LimitNOFILE or lower OOMScoreAdjust;
// tests ask systemd for these settings instead of the process.
package systemd

import "time"

// The deadlines of the machines, for hosts that are slow because they do other
// things.
const (
	// bootTime is for a machine to come up.
	bootTime = 3 * time.Minute
	// downTime is for a machine to stop all its services.
	downTime = 2 * time.Minute
	// runTime bounds one script.
	runTime = 6 * time.Minute
	// pollTime is the pause between two observations.
	pollTime = 100 * time.Millisecond
)
