package discovery

import (
	"context"
	"time"
)

// lookupDistance is the least time between two questions to Options.Lookup:
// clouds count them.
const lookupDistance = 5 * time.Second

// lookup asks whoever knows the machines, in a goroutine, if nobody is asking
// and the last time is long enough ago. What was found last counts until the
// next answer.
func (f *Finder) lookup(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.o.Lookup == nil || f.resolving || !f.resolved.IsZero() && time.Since(f.resolved) < lookupDistance {
		return
	}
	f.resolving, f.resolved = true, time.Now()
	f.running.Go(func() {
		short, cancel := context.WithTimeout(ctx, requestLimit)
		seeds, err := f.o.Lookup(short)
		cancel()
		if ctx.Err() == nil {
			f.problem("machines of the cloud", err)
		}
		f.mu.Lock()
		f.resolving = false
		if err == nil {
			f.machines = seeds
		}
		f.mu.Unlock()
		signal(f.news)
	})
}
