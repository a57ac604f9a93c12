package backup

import "time"

// HurryUp makes the tests not wait for a store that fails on purpose, and small
// bombs large enough.
func HurryUp() {
	freeBytes = 4 << 20
	for i := range retryWaits {
		retryWaits[i] = time.Millisecond
	}
}
