package certs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func add(t *testing.T, r *Renewer, s Source) *Identity {
	t.Helper()
	id, err := r.Add(s, now)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func renew(t *testing.T, r *Renewer, at time.Time) ([]string, time.Time) {
	t.Helper()
	renewed, next, err := r.Renew(at)
	if err != nil {
		t.Fatal(err)
	}
	return renewed, next
}

// inMemory is a source without files, which lives for 30 days.
func inMemory(dir, name string) Source {
	r := ManagerClient("a")
	r.Lifetime = 30 * 24 * time.Hour
	return Source{Name: name, Dir: dir, CA: ManagerCA, Pair: Pair{Request: r}}
}

func TestRenewInTheLastThird(t *testing.T) {
	dir := t.TempDir()
	write(t, newCA(t, "ca"), dir, ManagerCA)
	var r Renewer
	if renewed, next := renew(t, &r, now); len(renewed) > 0 || !next.IsZero() || !r.NotAfter().IsZero() {
		t.Fatalf("empty: %q, %s", renewed, next)
	}
	memory := add(t, &r, inMemory(dir, "memory"))
	files := inMemory(dir, "files")
	files.Pair = pair(t)
	inFiles := add(t, &r, files)
	before, kept := memory.Leaf(), inFiles.Leaf()

	due := now.Add(20 * 24 * time.Hour)
	if renewed, next := renew(t, &r, now); len(renewed) > 0 || !next.Equal(due) {
		t.Fatalf("at once: %q, next %s, want %s", renewed, next, due)
	}
	if renewed, _ := renew(t, &r, due.Add(-time.Second)); len(renewed) > 0 {
		t.Fatalf("too early: %q", renewed)
	}
	if !r.NotAfter().Equal(now.Add(30 * 24 * time.Hour)) {
		t.Fatalf("the first ends %s", r.NotAfter())
	}
	renewed, next := renew(t, &r, due.Add(time.Second))
	if !slices.Equal(renewed, []string{"memory"}) || !next.Equal(due.Add(time.Second+20*24*time.Hour)) {
		t.Fatalf("when due: %q, next %s", renewed, next)
	}
	if memory.Leaf().Cert.Equal(before.Cert) || !inFiles.Leaf().Cert.Equal(kept.Cert) {
		t.Fatal("the wrong one was issued")
	}
	// Two thirds of two years later the one in files follows.
	renewed, _ = renew(t, &r, now.Add(year+year/2))
	if !slices.Equal(renewed, []string{"files", "memory"}) {
		t.Fatalf("later: %q", renewed)
	}
	if text, err := os.ReadFile(files.Pair.CertFile); err != nil || string(text) != string(inFiles.Leaf().CertPEM()) {
		t.Fatalf("the file is not the new certificate: %v", err)
	}
	r.Remove("memory")
	if renewed, _ := renew(t, &r, now.Add(9*year)); !slices.Equal(renewed, []string{"files"}) {
		t.Fatalf("after removal: %q", renewed)
	}
}

func TestRenewWhenCAFilesChange(t *testing.T) {
	dir := t.TempDir()
	older, newer := newCA(t, "older"), newCA(t, "newer")
	write(t, older, dir, ManagerCA)
	var r Renewer
	memory := add(t, &r, inMemory(dir, "memory"))
	files := inMemory(dir, "files")
	files.Pair = pair(t)
	inFiles := add(t, &r, files)
	serials := func() string {
		return fmt.Sprint(memory.Leaf().Cert.SerialNumber, inFiles.Leaf().Cert.SerialNumber)
	}
	for _, step := range []struct {
		name string
		ca   *CA
	}{{"trust both", older.With(newer)}, {"the new one issues", newer.With(older)}, {"the old one goes", newer}} {
		before := serials()
		write(t, step.ca, dir, ManagerCA)
		if renewed, _ := renew(t, &r, now); !slices.Equal(renewed, []string{"files", "memory"}) {
			t.Fatalf("%s: renewed %q", step.name, renewed)
		}
		for _, id := range []*Identity{memory, inFiles} {
			if !id.Pool().Equal(step.ca.Pool()) {
				t.Errorf("%s: pool is not the new one", step.name)
			}
			if err := id.Leaf().Cert.CheckSignatureFrom(step.ca.Cert); err != nil {
				t.Errorf("%s: %v", step.name, err)
			}
		}
		if text, err := os.ReadFile(files.Pair.CAFile); err != nil || string(text) != string(step.ca.PEM()) {
			t.Errorf("%s: CA file is not the new bundle: %v", step.name, err)
		}
		if after := serials(); after == before {
			t.Errorf("%s: same certificates", step.name)
		}
		if renewed, _ := renew(t, &r, now); len(renewed) > 0 {
			t.Errorf("%s: renewed %q again", step.name, renewed)
		}
	}
}

// Someone replaces the two CA files one after the other.
func TestRenewWhileCAFilesDoNotFit(t *testing.T) {
	dir := t.TempDir()
	older, newer := newCA(t, "older"), newCA(t, "newer")
	write(t, older, dir, ManagerCA)
	var r Renewer
	id := add(t, &r, inMemory(dir, "memory"))
	before := id.Leaf()
	put(t, filepath.Join(dir, ManagerCA+".crt"), newer.PEM())
	renewed, next, err := r.Renew(now)
	var mismatch *KeyMismatchError
	if !errors.As(err, &mismatch) || !strings.Contains(err.Error(), "certificate memory") || len(renewed) > 0 ||
		!next.Equal(now.Add(RetryDelay)) {
		t.Fatalf("renewed %q, next %s, %v", renewed, next, err)
	}
	if !id.Leaf().Cert.Equal(before.Cert) || !id.Pool().Equal(older.Pool()) {
		t.Fatal("what was there is gone")
	}
	// Long enough that it would end: what was read before issues once more.
	renewed, _, err = r.Renew(now.Add(25 * 24 * time.Hour))
	if len(renewed) != 1 || err == nil || id.Leaf().Cert.CheckSignatureFrom(older.Cert) != nil {
		t.Fatalf("renewed %q, %v", renewed, err)
	}
	write(t, newer, dir, ManagerCA)
	if renewed, _ := renew(t, &r, now); len(renewed) != 1 || !id.Pool().Equal(newer.Pool()) {
		t.Fatalf("once they fit: renewed %q", renewed)
	}
}

func TestRenewGoesOnAfterAFailure(t *testing.T) {
	dir := t.TempDir()
	write(t, newCA(t, "ca"), dir, ManagerCA)
	var r Renewer
	broken := inMemory(dir, "a-broken")
	broken.Pair = pair(t)
	full, isFull := errors.New("disk full"), false
	broken.Pair.WriteFile = func(path string, data []byte, perm os.FileMode) error {
		if isFull {
			return full
		}
		return writeFile(path, data, perm)
	}
	id := add(t, &r, broken)
	before := id.Leaf()
	add(t, &r, inMemory(dir, "b-works"))
	isFull = true
	late := now.Add(year + year/2)
	renewed, next, err := r.Renew(late)
	if !errors.Is(err, full) || !slices.Equal(renewed, []string{"b-works"}) || !next.Equal(late.Add(RetryDelay)) {
		t.Fatalf("renewed %q, next %s, %v", renewed, next, err)
	}
	if !id.Leaf().Cert.Equal(before.Cert) {
		t.Error("a certificate is in use that is not in the file")
	}
	isFull = false
	if renewed, _ := renew(t, &r, late); !slices.Equal(renewed, []string{"a-broken"}) {
		t.Fatalf("with room again: %q", renewed)
	}
}

func TestRenewRepairsFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, newCA(t, "ca"), dir, ManagerCA)
	var r Renewer
	s := inMemory(dir, "files")
	s.Pair = pair(t)
	add(t, &r, s)
	if err := os.RemoveAll(filepath.Dir(s.Pair.CertFile)); err != nil {
		t.Fatal(err)
	}
	if renewed, _ := renew(t, &r, now); len(renewed) != 1 {
		t.Fatalf("renewed %q", renewed)
	}
	if renewed, _ := renew(t, &r, now); len(renewed) != 0 {
		t.Fatalf("renewed %q again", renewed)
	}
}

// The CA ends before the certificate would: renewing does not help, and asking
// again and again neither.
func TestRenewAtTheEndOfTheCA(t *testing.T) {
	dir := t.TempDir()
	ca, err := NewCA(CASpec{CommonName: "short", Lifetime: time.Hour}, now)
	if err != nil {
		t.Fatal(err)
	}
	write(t, ca, dir, ManagerCA)
	var r Renewer
	add(t, &r, inMemory(dir, "memory"))
	renewed, next := renew(t, &r, now.Add(time.Minute))
	if len(renewed) > 0 || !next.Equal(ca.Cert.NotAfter) {
		t.Fatalf("renewed %q, next %s", renewed, next)
	}
	late := now.Add(2 * time.Hour)
	_, next, err = r.Renew(late)
	var validity *ValidityError
	if !errors.As(err, &validity) || !next.Equal(late.Add(RetryDelay)) {
		t.Fatalf("next %s, %v", next, err)
	}
}

func TestAddTwiceAndAddFailures(t *testing.T) {
	dir := t.TempDir()
	var r Renewer
	if _, err := r.Add(inMemory(dir, "memory"), now); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a CA: %v", err)
	}
	write(t, newCA(t, "ca"), dir, ManagerCA)
	if _, err := r.Add(Source{Name: "x", Dir: dir, CA: ManagerCA}, now); err == nil ||
		!strings.Contains(err.Error(), "certificate x") {
		t.Errorf("without a request: %v", err)
	}
	old := add(t, &r, inMemory(dir, "memory"))
	add(t, &r, inMemory(dir, "memory"))
	before := old.Leaf()
	if renewed, _ := renew(t, &r, now.Add(25*24*time.Hour)); len(renewed) != 1 {
		t.Errorf("renewed %q", renewed)
	}
	if !old.Leaf().Cert.Equal(before.Cert) {
		t.Error("the replaced one is still renewed")
	}
	// RenewBefore counts when a source is added: here, a new one at each start.
	s := inMemory(dir, "files")
	s.Pair = pair(t)
	s.Pair.RenewBefore = 20 * year
	first := add(t, &r, s).Leaf()
	id, err := r.Add(s, now.Add(time.Minute))
	if err != nil || id.Leaf().Cert.Equal(first.Cert) {
		t.Errorf("not issued at the start: %v", err)
	}
	if renewed, _ := renew(t, &r, now.Add(2*time.Minute)); slices.Contains(renewed, "files") {
		t.Error("issued again while it runs")
	}
}

// A disk that hangs while certificates are renewed holds up nobody who asks when they end: the daemon reports that in
// each observation.
func TestNotAfterWaitsForNoDisk(t *testing.T) {
	dir := t.TempDir()
	write(t, newCA(t, "ca"), dir, ManagerCA)
	var r Renewer
	end := add(t, &r, inMemory(dir, "memory")).Leaf().Cert.NotAfter
	cert := filepath.Join(dir, ManagerCA+".crt")
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(cert, 0o600); err != nil {
		t.Fatal(err)
	}
	renewed := make(chan error, 1)
	go func() {
		_, _, err := r.Renew(now)
		renewed <- err
	}()
	pipe, err := os.OpenFile(cert, os.O_WRONLY, 0) // opens when it is being read
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan time.Time, 1)
	go func() { answered <- r.NotAfter() }()
	select {
	case got := <-answered:
		if !got.Equal(end) {
			t.Errorf("it ends %s, want %s", got, end)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for the disk")
	}
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-renewed; err == nil {
		t.Error("an empty CA was taken")
	}
}
