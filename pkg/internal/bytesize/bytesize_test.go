package bytesize

import (
	"math"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "512": 512, "512B": 512, "1KiB": 1024, "1Ki": 1024, "1kB": 1000, "1KB": 1000,
		"20GiB": 20 << 30, "20Gi": 20 << 30, "20GB": 20e9, "3TiB": 3 << 40, "3TB": 3e12, "3T": 3e12, "4G": 4e9, "3M": 3e6,
		"2k": 2000, "9223372036854775807": math.MaxInt64,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, bad := range []string{
		"", "B", "GiB", "-1", "+1", "-1GiB", "1.5GiB", "1 GiB", "1gib", "9223372036854775808", "9000000000TiB", "1GiBB", "Gi",
		"8 Gi", "8gi", "1.5Gi", "0x10", "9999999Ti", "1e3",
	} {
		if got, err := Parse(bad); err == nil {
			t.Errorf("%q is read as %d", bad, got)
		}
	}
}

func TestFormatSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 10 << 30: "10 GiB", 3 << 40: "3 TiB",
		4 << 50: "4 PiB", 1 << 62: "4 EiB",
	} {
		if got := Format(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestFormatColumn(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 10 << 30: "10.0 GiB"} {
		if got := Column(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("20GiB")
	f.Add("-1")
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := Parse(s); err == nil && n < 0 {
			t.Errorf("%q is read as %d", s, n)
		}
	})
}
