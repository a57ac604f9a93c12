package certs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// A StepError says that a step of a rotation is not the one that is due, or
// not of the CA that is expected.
type StepError struct {
	Step  RotationStep
	State RotationState
	Text  string
	// Do is the hint.
	Do string
}

func (e *StepError) Error() string {
	return fmt.Sprintf("rotate CA: %s is not possible, the rotation on this machine is %s: %s", e.Step, e.State, e.Text)
}

// Hint says what to do about it.
func (e *StepError) Hint() string { return e.Do }

// A Rotated says what a step has done, and what has to follow.
type Rotated struct {
	// Rotation is how far it is now.
	Rotation
	Step RotationStep `json:"step"`
	// Changed are the files that were written or removed; none says that there
	// was nothing to do.
	Changed []string `json:"changed,omitempty"`
	// Restart says that etcd on this machine has to be restarted before the next
	// step begins on any machine, if it was not since ca.crt changed: etcd reads
	// ca.crt when it starts, and not again.
	Restart bool `json:"restart"`
	// Fingerprint is that of the newest CA: it must be the same on all machines.
	Fingerprint string `json:"fingerprint"`
}

// RotateCA does one step of the rotation of the CA on this machine. Each may
// be repeated, also after a crash within it; one that is not due is refused
// with a *[StepError], and changes nothing.
//
// If expect is not empty, it is the fingerprint of the new CA. Then prepare
// does not make one, so that machines cannot end with different ones: the pair
// ca-next.crt and ca-next.key is to be copied from the machine that made it.
//
// Of the spec, Dir must be set; RSA, the lifetimes and Owner are for what is
// issued, and the rest is taken from the present certificates.
func RotateCA(spec MachineSpec, step RotationStep, expect string, now time.Time) (Rotated, error) {
	if !exists(spec.Dir) {
		return Rotated{}, &NoCAError{Dir: spec.Dir, Problem: missingCA(spec.Dir).Problem}
	}
	done := Rotated{Step: step}
	err := locked(spec.Dir, func() error {
		check, err := CheckRotation(spec.Dir, now)
		if err != nil {
			return err
		}
		t := rotationStep{spec: spec, now: now, expect: expect, Rotation: check, done: &done}
		switch step {
		case StepPrepare:
			err = t.prepare()
		case StepIssue:
			err = t.issue()
		case StepFinish:
			err = t.finish()
		default:
			err = fmt.Errorf("rotate CA: there is no step %q; the steps are %s, %s, %s", step, StepPrepare, StepIssue,
				StepFinish)
		}
		if err != nil {
			return err
		}
		if err := hostfs.SyncDir(spec.Dir); err != nil {
			return err
		}
		done.Rotation, err = CheckRotation(spec.Dir, now)
		if err == nil {
			done.Fingerprint = Fingerprint(done.newest().Cert)
		}
		return err
	})
	return done, err
}

// A rotationStep is one call of [RotateCA].
type rotationStep struct {
	Rotation
	spec   MachineSpec
	now    time.Time
	expect string
	done   *Rotated
}

func (t *rotationStep) changed(names ...string) { t.done.Changed = append(t.done.Changed, names...) }

func (t *rotationStep) refuse(do, format string, args ...any) error {
	return &StepError{Step: t.done.Step, State: t.State, Text: fmt.Sprintf(format, args...), Do: do}
}

// isNewest refuses a CA that is not the one that is expected.
func (t *rotationStep) isNewest() error {
	if is := Fingerprint(t.newest().Cert); t.expect != "" && t.expect != is {
		return t.refuse("copy ca-next.crt and ca-next.key from the machine on which etcdadm certs rotate-ca prepare "+
			"made them",
			"the new CA on this machine is %s, not %s", is, t.expect)
	}
	return nil
}

// hasBecome reports whether the CA that is expected is the only one already.
func (t *rotationStep) hasBecome() bool {
	return t.expect != "" && t.State == RotationIdle && t.expect == t.Issuing
}

func (t *rotationStep) prepare() error {
	switch {
	case t.hasBecome():
		return nil
	case t.State == RotationIssued && t.expect != "" && t.expect == t.Issuing:
		return nil
	case t.State == RotationIssued:
		return t.refuse("etcdadm certs rotate-ca finish", "ca.crt trusts an older CA beside the present one")
	case t.State == RotationIdle && t.expect != "":
		return t.refuse("copy ca-next.crt and ca-next.key from the machine on which etcdadm certs rotate-ca prepare "+
			"made them",
			"the new CA %s is not on this machine", t.expect)
	case t.State == RotationIdle:
		if err := createCA(t.spec, NextCA, t.now); err != nil {
			return err
		}
		t.changed(NextCA+".key", NextCA+".crt")
		if err := t.findNext(t.spec.Dir, t.now); err != nil {
			return err
		}
	}
	if err := t.isNewest(); err != nil {
		return err
	}
	wrote, err := t.spec.writeBundle(t.ca.With(t.next).Bundle)
	if err != nil {
		return fmt.Errorf("rotate CA: %w", err)
	}
	if wrote {
		t.changed(MachineCA + ".crt")
	}
	t.done.Restart = true
	return nil
}

func (t *rotationStep) issue() error {
	switch {
	case t.hasBecome():
		return nil
	case t.State == RotationIdle || t.State == RotationPreparing:
		return t.refuse("etcdadm certs rotate-ca prepare, on all machines, and a restart of etcd on each",
			"the new CA is not trusted yet")
	}
	if err := t.isNewest(); err != nil {
		return err
	}
	// The server's comes last: by it the others see that this machine is ready.
	isServer := func(name string) bool { return name == ServerPair }
	names := slices.DeleteFunc(slices.Clone(t.OldLeaves), isServer)
	if slices.ContainsFunc(t.OldLeaves, isServer) {
		names = append(names, ServerPair)
	}
	for _, name := range names {
		r, err := t.spec.copied(name)
		if err != nil {
			return err
		}
		spec := t.spec
		spec.Owner = spec.keyOwner()
		if _, err := spec.issueOne(t.newest(), name, r, t.now); err != nil {
			return err
		}
		t.changed(name + ".crt")
	}
	if t.next == nil {
		return t.removeNext() // what a crash may have left
	}
	return t.swap()
}

// swap makes the next CA the one that issues. Both are in ca.crt, so that the
// key alone shows which issues.
func (t *rotationStep) swap() error {
	dir, write := t.spec.Dir, t.spec.writer(nil)
	keyFile := pairFile(dir, MachineCA, ".key")
	old, err := os.ReadFile(keyFile)
	if err != nil {
		return fmt.Errorf("rotate CA: %w", err)
	}
	key, err := keyPEM(t.next.key)
	if err != nil {
		return fmt.Errorf("rotate CA: %w", err)
	}
	if t.Issuing != t.Next {
		if err := write(filepath.Join(dir, previousKey), old, 0o600); err != nil {
			return fmt.Errorf("rotate CA: %w", err)
		}
		if err := write(keyFile, key, 0o600); err != nil {
			return fmt.Errorf("rotate CA: %w", err)
		}
		if err := hostfs.SyncDir(dir); err != nil {
			return fmt.Errorf("rotate CA: %w", err)
		}
		t.changed(previousKey, MachineCA+".key")
	}
	return t.removeNext()
}

func (t *rotationStep) removeNext() error {
	for _, name := range []string{NextCA + ".key", NextCA + ".crt"} {
		if err := t.remove(name); err != nil {
			return err
		}
	}
	return nil
}

func (t *rotationStep) remove(name string) error {
	file := filepath.Join(t.spec.Dir, name)
	if !exists(file) {
		return nil
	}
	if err := os.Remove(file); err != nil {
		return fmt.Errorf("rotate CA: %w", err)
	}
	t.changed(name)
	return nil
}

func (t *rotationStep) finish() error {
	if err := t.isNewest(); err != nil {
		return err
	}
	switch {
	case t.State == RotationIdle:
	case t.State != RotationIssued:
		return t.refuse("etcdadm certs rotate-ca issue, on all machines", "the old CA is still in use")
	case len(t.OldLeaves) > 0:
		return t.refuse("etcdadm certs rotate-ca issue", "the old CA has issued %q", t.OldLeaves)
	default:
		wrote, err := t.spec.writeBundle(chainOf(t.ca.Cert, t.ca.Bundle))
		if err != nil {
			return fmt.Errorf("rotate CA: %w", err)
		}
		if wrote {
			t.changed(MachineCA + ".crt")
		}
		t.done.Restart = true
	}
	return errors.Join(t.removeNext(), t.remove(previousKey))
}
