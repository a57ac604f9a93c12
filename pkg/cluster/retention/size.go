package retention

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sizeUnits are the units of sizes: those of 1000 and those of 1024. Of two
// spellings of one factor the first is the one that formatSize writes.
var sizeUnits = []struct {
	name   string
	factor int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"Ti", 1 << 40}, {"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1},
}

// ParseSize reads a size in bytes: a whole number, with a unit of 1024 (KiB,
// MiB, GiB, TiB, or Ki, Mi, Gi, Ti as Kubernetes writes them), a unit of 1000
// (kB, MB, GB, TB), or none.
func ParseSize(s string) (int64, error) {
	number, factor := s, int64(1)
	for _, u := range sizeUnits {
		if n, ok := strings.CutSuffix(s, u.name); ok {
			number, factor = n, u.factor
			break
		}
	}
	// ParseUint, so that neither sign is read.
	n, err := strconv.ParseUint(number, 10, 63)
	switch {
	case err != nil:
		return 0, fmt.Errorf("size %q is not of a form such as 500MiB, 20GiB or 1TB", s)
	case n > uint64(math.MaxInt64/factor):
		return 0, fmt.Errorf("size %q is more than fits", s)
	}
	return int64(n) * factor, nil
}

// formatSize writes a size for people: "512 B", "1.5 GiB".
func formatSize(n int64) string {
	for _, u := range sizeUnits[:4] {
		if n < u.factor {
			continue
		}
		text := strconv.FormatFloat(float64(n)/float64(u.factor), 'f', 1, 64)
		return strings.TrimSuffix(text, ".0") + " " + u.name
	}
	return strconv.FormatInt(n, 10) + " B"
}
