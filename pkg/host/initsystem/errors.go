package initsystem

import (
	"fmt"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// A MissingError says that this machine has no systemd: no systemctl, or one
// that finds no systemd running.
type MissingError struct {
	// Why is what is missing.
	Why string
	Err error
}

func (e *MissingError) Error() string {
	if e.Err == nil {
		return "systemd does not run here: " + e.Why
	}
	return fmt.Sprintf("systemd does not run here: %s (%v)", e.Why, e.Err)
}

func (e *MissingError) Unwrap() error { return e.Err }

// Hint says what to do about it.
func (e *MissingError) Hint() string { return machine.OtherInitSystems }

// A UnitError says that systemd would run something else than our unit, or
// nothing.
type UnitError struct {
	// Unit is its name, and Text what is the matter with it.
	Unit, Text string
	// Next is what to do about it.
	Next string
}

func (e *UnitError) Error() string { return fmt.Sprintf("unit %s %s", e.Unit, e.Text) }

// Hint says what to do about it.
func (e *UnitError) Hint() string { return e.Next }

// A StartError says that the supervisor of etcd ended at once.
type StartError struct {
	// Output is what it said, Log where it and etcd say more.
	Output, Log string
	Err         error
}

func (e *StartError) Error() string {
	if e.Output == "" {
		return fmt.Sprintf("start the supervisor of etcd: %v", e.Err)
	}
	return fmt.Sprintf("start the supervisor of etcd: %v: %s", e.Err, e.Output)
}

func (e *StartError) Unwrap() error { return e.Err }

// Hint says what to do about it.
func (e *StartError) Hint() string { return "see " + e.Log }
