// Package testwait waits in tests for what happens by itself.
package testwait

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Limit only keeps a test from hanging: machines that test are loaded.
const Limit = 4 * time.Minute

// askTimeout bounds one question, so that one that hangs is asked again.
const askTimeout = 2 * time.Second

// pause is the time between two questions.
const pause = 5 * time.Millisecond

// Until waits until ok says true, and ends the test if it never does.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	For(t, what, func(context.Context) error {
		if ok() {
			return nil
		}
		return errors.New("it is not so")
	})
}

// For waits until ask returns nil. If it never does, the test ends with what it
// returned last. Each time ask gets a context with a deadline of its own. It may be used
// while a test is cleaned up.
func For(t testing.TB, what string, ask func(ctx context.Context) error) {
	t.Helper()
	if err := Try(context.WithoutCancel(t.Context()), Limit, ask); err != nil {
		t.Fatalf("waited %s for %s: %v", Limit, what, err)
	}
}

// InTime repeats do until once it takes no longer than most, and ends the test if it never
// does. A busy machine takes longer by chance; what waits for the wrong thing does each time.
func InTime(t testing.TB, what string, most time.Duration, do func()) {
	t.Helper()
	for until := time.Now().Add(Limit); ; {
		began := time.Now()
		do()
		took := time.Since(began)
		if took <= most {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%s takes %s each time, at most %s is right", what, took, most)
		}
	}
}

// Try is [For] with a limit of its own, and returns the last error. A context that
// ends while ask is asked says nothing about what is waited for.
func Try(ctx context.Context, limit time.Duration, ask func(ctx context.Context) error) error {
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		asked, cancel := context.WithTimeout(ctx, askTimeout)
		err := ask(asked)
		cancel()
		if err == nil || time.Now().After(deadline) || ctx.Err() != nil {
			return err
		}
		<-tick.C
	}
}
