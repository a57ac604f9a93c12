package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
)

// A completion does not wait for what does not answer, and may not even end.
func TestCompletionIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		root := &cobra.Command{Use: "x"}
		root.AddCommand(&cobra.Command{
			Use: "do", Run: func(*cobra.Command, []string) {},
			ValidArgsFunction: Complete(1, true, func(context.Context, *cobra.Command) ([]string, error) {
				<-release
				return []string{"late"}, nil
			}),
		})
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(new(bytes.Buffer))
		began := time.Now()
		if code := Run(t.Context(), root, []string{"__complete", "do", ""}); code != 0 {
			t.Errorf("it ends with %d", code)
		}
		if took := time.Since(began); took != 2*time.Second || strings.Contains(out.String(), "late") {
			t.Errorf("it took %v and says %q", took, &out)
		}
	})
}
