package certs

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// rotate does a step, which must succeed.
func rotate(t *testing.T, s MachineSpec, step RotationStep) Rotated {
	t.Helper()
	r, err := RotateCA(MachineSpec{Dir: s.Dir}, step, "", now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func stateOf(t *testing.T, s MachineSpec) RotationState {
	t.Helper()
	r, err := CheckRotation(s.Dir, now)
	if err != nil {
		t.Fatal(err)
	}
	return r.State
}

// accepts reports whether a machine accepts what another shows.
func accepts(t *testing.T, here, there MachineSpec) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(read(t, here.at("ca.crt")))
	_, err := certOf(t, there, "server").Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, DNSName: there.Address})
	return err
}

// copyFiles copies files of one machine to another, as an operator does.
func copyFiles(t *testing.T, from, to MachineSpec, names ...string) {
	t.Helper()
	if err := os.MkdirAll(to.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		put(t, to.at(name), read(t, from.at(name)))
	}
}

// Three machines go from one CA to the next, one after the other in each step,
// and at every moment each accepts what all show.
func TestRotationOnThreeMachines(t *testing.T) {
	first := made(t)
	machines := []MachineSpec{first}
	for i := 2; i <= 3; i++ {
		s := machine(t)
		s.Name, s.Address = "m", fmt.Sprintf("10.0.0.%d", i)
		copyFiles(t, first, s, "ca.crt", "ca.key")
		mustIssue(t, s, now, MachinePairs()...)
		machines = append(machines, s)
	}
	old := certOf(t, first, "ca")
	everybody := func(when string) {
		t.Helper()
		for i, here := range machines {
			for j, there := range machines {
				if err := accepts(t, here, there); err != nil {
					t.Errorf("%s: machine %d refuses %d: %v", when, i, j, err)
				}
			}
		}
	}
	var expect string
	for _, step := range []struct {
		step    RotationStep
		state   RotationState
		restart bool
	}{{StepPrepare, RotationPrepared, true}, {StepIssue, RotationIssued, false}, {StepFinish, RotationIdle, true}} {
		for i, s := range machines {
			if step.step == StepPrepare && i > 0 {
				copyFiles(t, first, s, "ca-next.crt", "ca-next.key")
			}
			r, err := RotateCA(MachineSpec{Dir: s.Dir}, step.step, expect, now)
			if err != nil {
				t.Fatal(err)
			}
			expect = r.Fingerprint
			if r.State != step.state || r.Restart != step.restart || len(r.Changed) == 0 {
				t.Errorf("%s on %d: %+v", step.step, i, r)
			}
			everybody(fmt.Sprintf("%s on %d", step.step, i))
			// Repeated, it changes nothing.
			before := contents(t, s.Dir)
			again, err := RotateCA(MachineSpec{Dir: s.Dir}, step.step, expect, now)
			if err != nil || len(again.Changed) > 0 || !same(before, contents(t, s.Dir)) {
				t.Errorf("%s on %d again: %+v, %v", step.step, i, again, err)
			}
		}
	}
	for i, s := range machines {
		ca := certOf(t, s, "ca")
		if Fingerprint(ca) != expect || ca.Equal(old) || len(ObserveMachine(s, now).CA.Trusted) != 1 ||
			!ObserveMachine(s, now).Complete() {
			t.Errorf("machine %d: %+v", i, ObserveMachine(s, now))
		}
		files := contents(t, s.Dir)
		if len(files) != 10 {
			t.Errorf("machine %d has %d files", i, len(files))
		}
		c := certOf(t, s, "server")
		if err := c.CheckSignatureFrom(ca); err != nil || c.Subject.CommonName != string(s.Name) ||
			c.VerifyHostname(s.Address) != nil || c.CheckSignatureFrom(old) == nil {
			t.Errorf("machine %d: %v %v", i, err, c.Subject)
		}
	}
}

// What is said of a rotation follows from the files at each step.
func TestRotationStates(t *testing.T) {
	s := made(t)
	oldCA := Fingerprint(certOf(t, s, "ca"))
	if r, err := CheckRotation(s.Dir, now); err != nil || r.State != RotationIdle || r.Issuing != oldCA || r.Next != "" ||
		len(r.Old) > 0 || len(r.OldLeaves) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	keys := map[string]string{}
	for _, name := range MachinePairs() {
		keys[name] = KeyHash(certOf(t, s, name))
	}
	r := rotate(t, s, StepPrepare)
	if r.Issuing != oldCA || r.Next != r.Fingerprint || !slices.Equal(r.Old, []string{oldCA}) ||
		!slices.Equal(r.OldLeaves, MachinePairs()) ||
		!slices.Equal(r.Changed, []string{"ca-next.key", "ca-next.crt", "ca.crt"}) {
		t.Errorf("%+v", r)
	}
	// Meanwhile the machine is what it should be, and issues from the old CA.
	if pki := ObserveMachine(s, now); !pki.Complete() || len(pki.CA.Trusted) != 2 || pki.CA.Fingerprint != oldCA {
		t.Errorf("%+v", pki)
	}
	if _, err := RenewFiles(MachineSpec{Dir: s.Dir}, nil, now.Add(time.Hour)); err != nil ||
		stateOf(t, s) != RotationPrepared {
		t.Errorf("%v, %s", err, stateOf(t, s))
	}
	next := r.Next
	r = rotate(t, s, StepIssue)
	if r.Issuing != next || r.Next != "" || !slices.Equal(r.Old, []string{oldCA}) || len(r.OldLeaves) > 0 ||
		!slices.Equal(r.Changed, []string{
			"peer.crt", EtcdctlPair + ".crt", APIServerPair + ".crt", "server.crt", "ca-previous.key", "ca.key", "ca-next.key",
			"ca-next.crt",
		}) {
		t.Errorf("%+v", r)
	}
	for _, name := range MachinePairs() {
		if KeyHash(certOf(t, s, name)) != keys[name] {
			t.Errorf("%s has another key", name)
		}
	}
	if pki := ObserveMachine(s, now); !pki.Complete() || len(pki.CA.Trusted) != 2 || pki.CA.Fingerprint != next {
		t.Errorf("%+v", pki)
	}
	r = rotate(t, s, StepFinish)
	if r.Issuing != next || len(r.Old) > 0 || !slices.Equal(r.Changed, []string{"ca.crt", "ca-previous.key"}) {
		t.Errorf("%+v", r)
	}
	// And once more, from the beginning.
	for _, step := range []RotationStep{StepPrepare, StepIssue, StepFinish} {
		rotate(t, s, step)
	}
	if now := Fingerprint(certOf(t, s, "ca")); now == next || now == oldCA {
		t.Error("the second rotation brought no new CA")
	}
}

func TestRotationRefusesWhatIsNotDue(t *testing.T) {
	for name, c := range map[string]struct {
		before []RotationStep
		change func(*testing.T, MachineSpec)
		step   RotationStep
		expect string
		want   string
	}{
		"issue first":        {step: StepIssue, want: "issue is not possible, the rotation on this machine is idle"},
		"issue after finish": {before: []RotationStep{StepPrepare, StepIssue, StepFinish}, step: StepIssue, want: "is idle"},
		"issue of a copy":    {change: otherNext, step: StepIssue, want: "is preparing: the new CA is not trusted yet"},
		"finish of a copy":   {change: otherNext, step: StepFinish, want: "is preparing"},
		"finish too early": {
			before: []RotationStep{StepPrepare}, step: StepFinish, want: "is prepared: the old CA is still in use",
		},
		"prepare too early": {
			before: []RotationStep{StepPrepare, StepIssue}, step: StepPrepare, want: "is issued: ca.crt trusts an older CA",
		},
		"prepare, not copied": {step: StepPrepare, expect: "1234", want: "the new CA 1234 is not on this machine"},
		"prepare, other copy": {change: otherNext, step: StepPrepare, expect: "1234", want: "not 1234"},
		"issue, other":        {before: []RotationStep{StepPrepare}, step: StepIssue, expect: "1234", want: "not 1234"},
		"finish, other": {
			before: []RotationStep{StepPrepare, StepIssue}, step: StepFinish, expect: "1234", want: "not 1234",
		},
		"finish, old leaf": {before: []RotationStep{StepPrepare, StepIssue}, change: func(t *testing.T, s MachineSpec) {
			put(t, s.at("peer.crt"), []byte(oldPeer))
		},
			step: StepFinish, want: `the old CA has issued ["peer"]`},
		"finish, nothing to finish with another": {step: StepFinish, expect: "1234", want: "not 1234"},
	} {
		t.Run(name, func(t *testing.T) {
			s := made(t)
			oldPeer = string(read(t, s.at("peer.crt")))
			for _, step := range c.before {
				rotate(t, s, step)
			}
			if c.change != nil {
				c.change(t, s)
			}
			before := contents(t, s.Dir)
			_, err := RotateCA(MachineSpec{Dir: s.Dir}, c.step, c.expect, now)
			var refused *StepError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || refused.Hint() == "" {
				t.Error(err)
			}
			if !same(before, contents(t, s.Dir)) {
				t.Error("files changed")
			}
		})
	}
}

// oldPeer is the peer's certificate before the steps of a test.
var oldPeer string

// otherNext puts the next CA of another machine here.
func otherNext(t *testing.T, s MachineSpec) {
	t.Helper()
	other := made(t)
	rotate(t, other, StepPrepare)
	copyFiles(t, other, s, "ca-next.crt", "ca-next.key")
}

func TestRotationNeedsGoodFiles(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, MachineSpec)
		want   string
	}{
		"no directory": {func(t *testing.T, s MachineSpec) { os.RemoveAll(s.Dir) }, "there is no CA"},
		"no CA": {func(t *testing.T, s MachineSpec) { remove(t, s.at("ca.crt"), s.at("ca.key")) },
			"there is no CA"},
		"external CA": {func(t *testing.T, s MachineSpec) { remove(t, s.at("ca.key")) }, "ca.key is not on this machine"},
		"broken CA":   {func(t *testing.T, s MachineSpec) { put(t, s.at("ca.key"), []byte("x")) }, "no private key"},
		"next cert alone": {func(t *testing.T, s MachineSpec) { otherNext(t, s); remove(t, s.at("ca-next.key")) },
			"ca-next.crt exists, but not"},
		"next key alone": {func(t *testing.T, s MachineSpec) { otherNext(t, s); remove(t, s.at("ca-next.crt")) },
			"ca-next.key exists, but not"},
		"next garbage": {func(t *testing.T, s MachineSpec) { otherNext(t, s); put(t, s.at("ca-next.crt"), []byte("x")) },
			"ca-next.crt: there is no certificate"},
		"next mixed": {func(t *testing.T, s MachineSpec) {
			otherNext(t, s)
			put(t, s.at("ca-next.key"), read(t, s.at("ca.key")))
		}, "no certificate in"},
		"next is no CA": {func(t *testing.T, s MachineSpec) { copyPair(t, s, "server", "ca-next") },
			"not a CA certificate"},
		"an unknown step": {func(*testing.T, MachineSpec) {}, `no step "begin"; the steps are prepare, issue, finish`},
		"not our next one": {func(t *testing.T, s MachineSpec) { putBelow(t, s.at("ca-next.key/x"), "x") },
			"exists, but not"},
	} {
		t.Run(name, func(t *testing.T) {
			s := made(t)
			c.change(t, s)
			steps := []RotationStep{StepPrepare, StepIssue, StepFinish}
			if strings.HasPrefix(name, "an unknown") {
				steps = []RotationStep{"begin"}
			}
			for _, step := range steps {
				if _, err := RotateCA(MachineSpec{Dir: s.Dir}, step, "", now); err == nil ||
					!strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: %v", step, err)
				}
			}
		})
	}
}

// A write or removal fails, or the machine dies, anywhere in a step: the
// machine goes on accepting both CAs' certificates, its own pairs belong
// together, and the step done again ends as if nothing had been.
func TestRotationAfterACrash(t *testing.T) {
	dead := errors.New("power is off")
	for _, step := range []RotationStep{StepPrepare, StepIssue, StepFinish} {
		for writes := 0; ; writes++ {
			s := made(t)
			for _, before := range []RotationStep{StepPrepare, StepIssue, StepFinish} {
				if before == step {
					break
				}
				rotate(t, s, before)
			}
			other := machine(t)
			copyFiles(t, s, other, "ca.crt", "ca.key")
			mustIssue(t, other, now, MachinePairs()...)

			n := 0
			broken := MachineSpec{Dir: s.Dir, write: func(path string, data []byte, perm os.FileMode) error {
				if n++; n > writes {
					return dead
				}
				return writeFile(path, data, perm)
			}}
			_, err := RotateCA(broken, step, "", now)
			if err == nil {
				break // it has no more writes
			}
			if !errors.Is(err, dead) {
				t.Fatalf("%s after %d writes: %v", step, writes, err)
			}
			if err := errors.Join(accepts(t, s, s), accepts(t, s, other)); err != nil {
				t.Errorf("%s after %d writes: %v", step, writes, err)
			}
			for _, name := range MachinePairs() {
				if _, state, why := readPair(s.Dir, name); state != "" {
					t.Errorf("%s after %d writes: %s", step, writes, why)
				}
			}
			r := rotate(t, s, step)
			if want := map[RotationStep]RotationState{
				StepPrepare: RotationPrepared, StepIssue: RotationIssued, StepFinish: RotationIdle,
			}[step]; r.State != want {
				t.Errorf("%s after %d writes: %s", step, writes, r.State)
			}
			for rest := range contents(t, s.Dir) {
				if strings.HasPrefix(rest, ".") {
					t.Errorf("%s after %d writes: %s is left", step, writes, rest)
				}
			}
		}
	}
}

// The new CA gets its two names one after the other.
func TestPrepareCutShortBetweenTheNames(t *testing.T) {
	s := made(t)
	if err := newMachineCA(s, NextCA, now); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(halfFile(s.Dir, NextCA, ".key"), s.at("ca-next.key")); err != nil {
		t.Fatal(err)
	}
	key := read(t, s.at("ca-next.key"))
	if r := rotate(t, s, StepPrepare); r.State != RotationPrepared || string(read(t, s.at("ca-next.key"))) != string(key) {
		t.Errorf("%+v", r)
	}
}

// The last effects of "issue" are removals, between which a machine may die
// too.
func TestIssueCutShortBetweenItsRemovals(t *testing.T) {
	for _, left := range [][]string{{"ca-next.crt", "ca-next.key"}, {"ca-next.crt"}} {
		s := made(t)
		rotate(t, s, StepPrepare)
		kept := contents(t, s.Dir)
		rotate(t, s, StepIssue)
		for _, name := range left {
			put(t, s.at(name), []byte(kept[name]))
		}
		previous := read(t, s.at("ca-previous.key"))
		r := rotate(t, s, StepIssue)
		if r.State != RotationIssued || len(r.Changed) != len(left) || exists(s.at("ca-next.crt")) ||
			string(read(t, s.at("ca-previous.key"))) != string(previous) {
			t.Errorf("%+v", r)
		}
		// The key before is the one of the old CA: the way back.
		if string(previous) != kept["ca.key"] {
			t.Error("ca-previous.key is not the key of the CA before")
		}
		// So also if the next step comes instead.
		for _, name := range left[:1] {
			put(t, s.at(name), []byte(kept[name]))
		}
		if r := rotate(t, s, StepFinish); r.State != RotationIdle || exists(s.at("ca-next.crt")) {
			t.Errorf("%+v", r)
		}
	}
}

// A certificate that went back to the old CA after "issue", by a copy, is
// issued again by the step; one that is missing is not.
func TestIssueOnceMore(t *testing.T) {
	s := made(t)
	old := read(t, s.at("server.crt"))
	remove(t, s.at("peer.crt"), s.at("peer.key"))
	rotate(t, s, StepPrepare)
	rotate(t, s, StepIssue)
	put(t, s.at("server.crt"), old)
	r := rotate(t, s, StepIssue)
	if !slices.Equal(r.Changed, []string{"server.crt"}) || exists(s.at("peer.crt")) {
		t.Errorf("%+v", r)
	}
	if c := certOf(t, s, "server"); c.CheckSignatureFrom(mustLoad(t, s).Cert) != nil {
		t.Error("the old CA's certificate is still there")
	}
}

func mustLoad(t *testing.T, s MachineSpec) *CA {
	t.Helper()
	ca, err := LoadCA(s.Dir, MachineCA, now)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// Certificates above the CA in a bundle that was brought are no old CA.
func TestFinishKeepsThoseWhoIssuedTheCA(t *testing.T) {
	s := made(t)
	old := certOf(t, s, "ca")
	root := newCA(t, "root")
	key, err := parseKey(read(t, s.at("ca.key")))
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, old, root.Cert, key.Public(), root.key)
	if err != nil {
		t.Fatal(err)
	}
	below, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s.at("ca.crt"), certPEM(below, root.Cert))
	if r, err := CheckRotation(s.Dir, now); err != nil || r.State != RotationIdle || len(r.Old) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	put(t, s.at("ca.crt"), certPEM(below, root.Cert, newCA(t, "old").Cert))
	if stateOf(t, s) != RotationIssued {
		t.Errorf("it is %s", stateOf(t, s))
	}
	rotate(t, s, StepFinish)
	if pki := ObserveMachine(s, now); len(pki.CA.Trusted) != 2 ||
		!slices.Contains(pki.CA.Trusted, Fingerprint(root.Cert)) || !pki.Complete() {
		t.Errorf("%+v", pki)
	}
}

func TestRotationToRSA(t *testing.T) {
	s := made(t)
	if _, err := RotateCA(MachineSpec{Dir: s.Dir, RSA: true, CALifetime: year}, StepPrepare, "", now); err != nil {
		t.Fatal(err)
	}
	c := certOf(t, MachineSpec{Dir: s.Dir}, NextCA)
	if c.PublicKeyAlgorithm != x509.RSA || !c.NotAfter.Equal(now.Add(year)) {
		t.Errorf("%s until %s", c.PublicKeyAlgorithm, c.NotAfter)
	}
}
