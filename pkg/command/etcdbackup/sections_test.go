package etcdbackup

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"
)

// A flag in no section of the help, or in two, is one that was forgotten.
func TestEveryFlagIsInOneSection(t *testing.T) {
	count := map[string]int{}
	for _, s := range sections {
		for _, name := range slices.Concat(s.Common, s.More) {
			count[name]++
		}
	}
	cmd := New()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if n := count[f.Name]; n != 1 && !f.Hidden {
			t.Errorf("--%s is in %d sections", f.Name, n)
		}
		delete(count, f.Name)
	})
	for name, n := range count { // those of all commands
		if n != 1 || cmd.PersistentFlags().Lookup(name) == nil {
			t.Errorf("--%s is no flag, or in %d sections", name, n)
		}
	}
}
