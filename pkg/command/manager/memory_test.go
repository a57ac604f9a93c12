package manager

import (
	"runtime/debug"
	"testing"
)

func TestTheDaemonsMemoryIsLimited(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	limitMemory(func(string) string { return "1GiB" })
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("with GOMEMLIMIT in the environment the limit became %d", got)
	}
	limitMemory(func(string) string { return "" })
	if got := debug.SetMemoryLimit(-1); got != memoryLimit {
		t.Errorf("the limit is %d", got)
	}
}

func TestTheHeapGrowsLittle(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	limit := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })
	limitMemory(func(string) string { return "100" })
	if got := percent(); got != 100 {
		t.Errorf("with GOGC in the environment it became %d", got)
	}
	limitMemory(func(string) string { return "" })
	if got := percent(); got != gcPercent {
		t.Errorf("it is %d", got)
	}
}
