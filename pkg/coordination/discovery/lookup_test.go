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
	scenario(t, func(w *world, o *Options) {
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

// cloudOf is a world with the running nodes b and c, which only a cloud knows: b first
// where it was before. It returns when the cloud was asked.
func cloudOf(o *Options, w *world, now *[]Seed) *[]time.Duration {
	three(w, o)
	w.records = nil
	asked := &[]time.Duration{}
	o.Sources = []Source{{What: "machines of the cloud", Ask: func(context.Context) ([]Seed, error) {
		w.set(func() { *asked = append(*asked, time.Since(w.begin)) })
		return *now, nil
	}}}
	return asked
}

func TestTheCloudIsAskedAgainWhenANodeHasCome(t *testing.T) {
	now := []Seed{{"b", at(9)}, {"c", at(3)}}
	var asked *[]time.Duration
	scenario(t, func(w *world, o *Options) { asked = cloudOf(o, w, &now) }, func(w *world, f *Finder) {
		// b comes by itself, a second after the cloud was asked: it said where b was before.
		later(time.Second)
		w.set(func() { w.joined["b"], now[0].Address = true, at(2) })
		later(8 * time.Second)
		if got := f.Machines()[1]; got.Name != "b" || got.Addresses[0] != at(2) {
			t.Errorf("it still believes in %v; asked %v", got, *asked)
		}
		later(time.Hour - 9*time.Second)
		if n := len(*asked); n > 15 {
			t.Errorf("the cloud was asked %d times in an hour: %v", n, *asked)
		}
	})
}

func TestAWakeShortlyAfterAQuestionIsNotForgotten(t *testing.T) {
	now := []Seed{{"b", at(2)}, {"c", at(3)}}
	var asked *[]time.Duration
	scenario(t, func(w *world, o *Options) { asked = cloudOf(o, w, &now) }, func(w *world, f *Finder) {
		later(20 * time.Minute)
		f.Wake()
		later(2 * time.Second)
		f.Wake()
		later(time.Minute)
		list := *asked
		if n := len(list); n < 2 || list[n-1] != 20*time.Minute+5*time.Second || list[n-2] != 20*time.Minute {
			t.Errorf("asked at %v", list)
		}
	})
}

func TestTheCloudIsAskedWhileAMachineDoesNotAnswer(t *testing.T) {
	now := []Seed{{"b", at(2)}, {"c", at(3)}}
	var asked *[]time.Duration
	var mute []string
	scenario(t, func(w *world, o *Options) {
		asked = cloudOf(o, w, &now)
		o.Unanswered = func() []string {
			w.mu.Lock()
			defer w.mu.Unlock()
			return mute
		}
	}, func(w *world, f *Finder) {
		later(time.Hour)
		w.set(func() { *asked, mute = nil, []string{at(2)} })
		later(10 * time.Minute)
		if n := len(*asked); n < 10 || n > 20 {
			t.Errorf("asked %d times in 10 minutes: %v", n, *asked)
		}
	})
}

func TestAMachineHasAllAddressesOfItsName(t *testing.T) {
	o := newWorld().options()
	o.Seeds = []Seed{{"", at(2)}, {"", at(7)}, {"a", at(1)}, {"b", at(8)}}
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	f.sources = []*source{{machines: []Seed{{"b", at(2)}, {"b", at(8)}, {"c", at(3)}, {"a", at(5)}, {"", self}}}}
	var got []string
	for _, m := range f.Machines() {
		got = append(got, string(m.Name)+" "+strings.Join(m.Addresses, " "))
	}
	want(t, got, "c "+at(3), "b "+at(2)+" "+at(8), " "+at(7))
}
