package discovery

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestMachinesOfTheCloudAreJoined(t *testing.T) {
	asked := 0
	var fails error
	story(t, func(w *world, o *Options) {
		three(w, o)
		w.records = nil // nobody has published: only the cloud knows them
		o.Sources = []Source{
			{What: "machines of the cloud", Ask: func(context.Context) ([]Seed, error) {
				asked++
				if fails != nil {
					return nil, fails
				}
				return []Seed{{"a", self}, {"b", at(9)}, {"b", at(2)}, {"c", at(3)}}, nil
			}},
			// One that hangs, and one that fails, keep nobody from being found.
			{What: "a source that hangs", Ask: func(ctx context.Context) ([]Seed, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}},
			{What: "a source that fails", Ask: func(context.Context) ([]Seed, error) { return nil, errors.New("out of order") }},
		}
	}, func(w *world, f *Finder) {
		later(time.Second)
		if got := strings.Join(w.take("join"), "\n"); !strings.Contains(got, "join c="+at(3)) ||
			!strings.Contains(got, "join b="+at(2)) {
			t.Errorf("machines of the cloud were not all asked: %q", got)
		}
		if asked != 1 {
			t.Errorf("the cloud was asked %d times in a second", asked)
		}
		// The cloud is away: what it said last counts.
		fails = errors.New("throttled")
		w.take("")
		w.stop(at(3))
		f.Wake()
		later(10 * time.Second)
		if len(w.take("join c="+at(3))) == 0 {
			t.Error("the machine that was known is not asked")
		}
		if asked > 4 {
			t.Errorf("the cloud was asked %d times in 11 seconds", asked)
		}
	})
}
