package sim

import "errors"

// Shrink looks for a shorter list of faults with which the history of a seed
// breaks the same invariant, and returns the failure with its log. It returns
// nil if the history breaks none.
func Shrink(seed uint64, c Config) *Failure {
	faults, steps := c.history(seed)
	worst := fails(seed, c, faults, steps)
	if worst == nil {
		return nil
	}
	same := func(faults []Fault, steps int) *Failure {
		if f := fails(seed, c, faults, steps); f != nil && f.Invariant == worst.Invariant {
			return f
		}
		return nil
	}
	for size := len(faults); size > 0; size /= 2 {
		for i := 0; i+size <= len(faults); {
			less := append(append([]Fault(nil), faults[:i]...), faults[i+size:]...)
			if same(less, steps) != nil {
				faults = less
			} else {
				i += size
			}
		}
	}
	for less := steps / 2; less > 0; less /= 2 {
		for steps-less > 0 && same(faults, steps-less) != nil {
			steps -= less
		}
	}
	c.Record = true
	return same(faults, steps)
}

func fails(seed uint64, c Config, faults []Fault, steps int) *Failure {
	_, err := Replay(seed, c, faults, steps)
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return nil
}
