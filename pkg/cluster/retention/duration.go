package retention

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// ParseDuration reads a retention time: what [time.ParseDuration] reads, or a
// whole number of days ("90d") or of years of 365 days ("2y"). Forms are not
// mixed: "1d12h" is an error, and so is a negative time.
func ParseDuration(s string) (time.Duration, error) {
	unit := time.Duration(0)
	if s != "" {
		switch s[len(s)-1] {
		case 'd':
			unit = day
		case 'y':
			unit = year
		}
	}
	if unit == 0 {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 {
			return 0, fmt.Errorf("%q is not a duration such as 36h, 90d or 2y", s)
		}
		return d, nil
	}
	// ParseUint, so that neither sign is read.
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 36h, 90d or 2y", s)
	}
	if n > uint64(math.MaxInt64/unit) {
		return 0, fmt.Errorf("%q is more than the 292 years that fit", s)
	}
	return time.Duration(n) * unit, nil
}
