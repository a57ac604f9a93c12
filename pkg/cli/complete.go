package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completeLimit bounds what the completion of a word asks: somebody waits at a keyboard.
const completeLimit = 2 * time.Second

// Words asks for the words that a completion offers, in their order. An error offers none.
type Words func(ctx context.Context, cmd *cobra.Command) ([]string, error)

// Complete completes up to most arguments by words, each only once. Where there are none,
// the shell offers files if orFiles says so.
func Complete(most int, orFiles bool, words Words) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		directive := cobra.ShellCompDirectiveKeepOrder
		if !orFiles {
			directive |= cobra.ShellCompDirectiveNoFileComp
		}
		return offered(cmd, words, "", begun, args), directive
	}
}

// CompleteWord completes the value of a flag.
func CompleteWord(words Words) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return offered(cmd, words, "", begun, nil), cobra.ShellCompDirectiveKeepOrder | cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteList completes the last of several words with commas between them.
func CompleteList(words Words) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		before, last := "", begun
		if at := strings.LastIndex(begun, ","); at >= 0 {
			before, last = begun[:at+1], begun[at+1:]
		}
		return offered(cmd, words, before, last, strings.Split(before, ",")),
			cobra.ShellCompDirectiveKeepOrder | cobra.ShellCompDirectiveNoFileComp
	}
}

// offered returns the words that begin so and were not given yet. What does not answer in
// time, and may not end at all, is left to itself: the program ends.
func offered(cmd *cobra.Command, words Words, before, begun string, given []string) []string {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeLimit)
	defer cancel()
	answer := make(chan []string, 1)
	go func() {
		// There is nobody to read an error.
		list, _ := words(ctx, cmd)
		answer <- list
	}()
	var list []string
	select {
	case list = <-answer:
	case <-ctx.Done():
	}
	var fit []string
	for _, w := range list {
		if strings.HasPrefix(w, begun) && !slices.Contains(given, w) {
			fit = append(fit, before+Plain(w))
		}
	}
	return fit
}
