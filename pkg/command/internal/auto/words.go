package auto

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// given returns the flags of the command line as words, by name, without those
// that only the command itself has.
func given(cmd *cobra.Command, own ...string) []string {
	var words []string
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Changed || slices.Contains(own, f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			words = append(words, "--"+f.Name+"="+v)
		}
	})
	return words
}
