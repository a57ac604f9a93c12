// Package bytesize reads and writes sizes in bytes as people do.
package bytesize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units are the units of sizes: those of 1024 and those of 1000. The longer
// spelling is before the one that it ends with.
var units = []struct {
	name   string
	factor int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"Ti", 1 << 40}, {"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1},
	{"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3},
}

// Parse reads a size: a whole number, with a unit of 1024 (KiB, MiB, GiB, TiB,
// or Ki, Mi, Gi, Ti as Kubernetes writes them), a unit of 1000 (kB, MB, GB, TB,
// or k, M, G, T), or none.
func Parse(s string) (int64, error) {
	number, factor := s, int64(1)
	for _, u := range units {
		if n, ok := strings.CutSuffix(s, u.name); ok {
			number, factor = n, u.factor
			break
		}
	}
	// ParseUint, so that neither sign is read.
	n, err := strconv.ParseUint(number, 10, 63)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a size; write a number of bytes, or a size such as 500MiB, 8Gi or 1TB", s)
	case n > uint64(math.MaxInt64/factor):
		return 0, fmt.Errorf("size %q is too large", s)
	}
	return int64(n) * factor, nil
}

// Format writes a size for people: "512 B", "1.5 GiB", "2 GiB".
func Format(n int64) string { return strings.Replace(Column(n), ".0 ", " ", 1) }

// Column writes a size as one of a column of them, with one decimal: "512 B",
// "1.5 GiB", "2.0 GiB".
func Column(n int64) string {
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + " B"
	}
	value, prefix := float64(n)/(1<<10), "KMGTPE"
	for value >= 1<<10 {
		value, prefix = value/(1<<10), prefix[1:]
	}
	return fmt.Sprintf("%.1f %ciB", value, prefix[0])
}
