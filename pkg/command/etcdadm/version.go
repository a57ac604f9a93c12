package etcdadm

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
)

// A clientVersion has the names under which the retired etcdadm printed its
// version; image builders read them.
type clientVersion struct {
	Major        string `json:"major"`
	Minor        string `json:"minor"`
	GitVersion   string `json:"gitVersion"`
	GitCommit    string `json:"gitCommit"`
	GitTreeState string `json:"gitTreeState"`
	BuildDate    string `json:"buildDate"`
	GoVersion    string `json:"goVersion"`
	Compiler     string `json:"compiler"`
	Platform     string `json:"platform"`
}

func thisVersion() clientVersion {
	v := clientVersion{
		GitVersion: cli.BuildVersion(), GitTreeState: "clean",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if words := strings.SplitN(strings.TrimPrefix(v.GitVersion, "v"), ".", 3); len(words) == 3 {
		v.Major, v.Minor = words[0], words[1]
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.GitCommit = s.Value
		case "vcs.time":
			v.BuildDate = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				v.GitTreeState = "dirty"
			}
		}
	}
	return v
}

// versionCommand prints the version: one line with --short, in the names of
// the retired etcdadm for programs.
func versionCommand(out *cli.Output) *cobra.Command {
	var short bool
	cmd := &cobra.Command{
		Use: "version", Short: "print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := thisVersion()
			if short {
				fmt.Fprintln(cmd.OutOrStdout(), v.GitVersion)
				return nil
			}
			return out.Print(cmd.OutOrStdout(), map[string]clientVersion{"clientVersion": v}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "etcdadm %s (%s, %s)\n", v.GitVersion, v.GoVersion, v.Platform)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&short, "short", false, "print the version number alone")
	return cmd
}
