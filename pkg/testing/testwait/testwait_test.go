package testwait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, asks := time.Now(), 0
		err := Try(t.Context(), time.Minute, func(context.Context) error {
			if asks++; asks < 3 {
				return errors.New("not yet")
			}
			return nil
		})
		if err != nil || asks != 3 || time.Since(begin) != 2*pause {
			t.Errorf("%v after %d questions in %s", err, asks, time.Since(begin))
		}
		never := errors.New("never")
		begin = time.Now()
		if err := Try(t.Context(), time.Minute, func(context.Context) error { return never }); !errors.Is(err, never) ||
			time.Since(begin) < time.Minute {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		ctx, cancel := context.WithCancel(t.Context())
		begin = time.Now()
		if err := Try(ctx, time.Minute, func(context.Context) error { cancel(); return never }); !errors.Is(err, never) ||
			time.Since(begin) != 0 {
			t.Errorf("with a context that ended: %v after %s", err, time.Since(begin))
		}
		begin = time.Now()
		if err := Try(t.Context(), 0, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }); !errors.Is(err,
			context.DeadlineExceeded) || time.Since(begin) != askTimeout {
			t.Errorf("a question that hangs: %v after %s", err, time.Since(begin))
		}
	})
}

func TestFor(t *testing.T) {
	asked := false
	For(t, "a question", func(context.Context) error { asked = true; return nil })
	said := false
	Until(t, "an answer", func() bool { said = !said; return !said })
	if !asked || said {
		t.Errorf("asked %t, said %t", asked, said)
	}
}
