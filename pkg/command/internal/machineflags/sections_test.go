package machineflags

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
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
	cmd := &cobra.Command{}
	Add(cmd, Member, Certificates, Binaries, Paths, Snapshot, Join)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if n := count[f.Name]; n != 1 && !f.Hidden {
			t.Errorf("--%s is in %d sections", f.Name, n)
		}
		delete(count, f.Name)
	})
	for name := range count {
		t.Errorf("--%s is no flag", name)
	}
}
