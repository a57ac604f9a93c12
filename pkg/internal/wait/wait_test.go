package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := For(t.Context(), time.Minute); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
		reason := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(reason) })
		begin = time.Now()
		if err := For(ctx, time.Minute); !errors.Is(err, reason) || time.Since(begin) != time.Second {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
		c := make(chan struct{}, 1)
		time.AfterFunc(time.Second, func() { c <- struct{}{} })
		begin = time.Now()
		if err := Until(t.Context(), time.Minute, c); err != nil || time.Since(begin) != time.Second {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
	})
}

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, rounds := time.Now(), 0
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		for range Every(ctx, time.Second) {
			rounds++
		}
		if took := time.Since(begin); rounds != 3 || took != 2500*time.Millisecond {
			t.Errorf("%d rounds in %s, want 3: at once, and after one and two seconds", rounds, took)
		}
		for range Every(ctx, time.Second) {
			rounds++
		}
		if rounds != 4 {
			t.Errorf("%d rounds, want one more although the context has ended", rounds)
		}
		for range Every(t.Context(), time.Second) {
			break
		}
	})
}
