package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version is the program's version. The linker sets it in a release
// (-X github.com/etcdadm/etcdadm/pkg/cli.Version=v1.2.3).
var Version string

// BuildVersion returns the program's version: the one that the linker set, or
// what the go command knows of the module or the commit, or "devel".
func BuildVersion() string {
	if Version != "" {
		return Version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	commit, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changes"
		}
	}
	if commit == "" {
		return "devel"
	}
	return "devel-" + commit[:min(12, len(commit))] + changed
}

// VersionCommand returns the command "version". It prints in the format of
// out, which may be nil for text only.
func VersionCommand(out *Output) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := struct {
				Program  string `json:"program"`
				Version  string `json:"version"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{cmd.Root().Name(), BuildVersion(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			text := func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s %s (%s, %s)\n", v.Program, v.Version, v.Go, v.Platform)
				return err
			}
			if out == nil {
				return text(cmd.OutOrStdout())
			}
			return out.Print(cmd.OutOrStdout(), v, text)
		},
	}
}
