// Package backoff says how long to wait before something that failed is tried again.
package backoff

import "time"

// Doubled returns first, doubled n times, but at most longest: the pause before the try that
// follows n+1 failures in a row.
func Doubled(first, longest time.Duration, n int) time.Duration {
	d := first
	for ; n > 0 && d < longest; n-- {
		if d > longest/2 {
			return longest
		}
		d *= 2
	}
	return min(d, longest)
}
