package auto

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// plain is a word that means itself to a shell and to systemd.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:,=+@-]+$`)

// unitWord returns a word as ExecStart= takes it (systemd.service, "Command
// lines"): % begins a specifier and $ a variable also in quotes.
func unitWord(s string) string {
	if plain.MatchString(s) {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$", "\n", `\n`).Replace(s) + `"`
}

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
