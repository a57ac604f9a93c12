package docs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/ctl"
	"github.com/etcdadm/etcdadm/pkg/command/etcdadm"
	"github.com/etcdadm/etcdadm/pkg/command/etcdbackup"
	"github.com/etcdadm/etcdadm/pkg/command/manager"
)

// programs returns our commands, as they are shipped.
func programs() map[string]*cobra.Command {
	return map[string]*cobra.Command{
		"etcdadm":          etcdadm.New(nil, etcdadm.Parts()...),
		"etcd-manager":     manager.New(nil),
		"etcd-manager-ctl": ctl.New(),
		"etcd-backup":      etcdbackup.New(),
	}
}

// Every command line in a page is one that our programs take: the commands and
// the flags exist, and in code the number of arguments is right. Decisions are
// history.
func TestCommandLinesInPagesAreTaken(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range append(pages, "../../../README.md", "../../../SECURITY.md", "../../../CONTRIBUTING.md") {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commandLines(string(content)) {
			checked++
			if err := taken(strings.Fields(line)); err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(page), line, err)
			}
		}
	}
	if checked < 200 {
		t.Errorf("found only %d command lines", checked)
	}
}

func TestCommandLinesThatAreNotTaken(t *testing.T) {
	for line, want := range map[string]string{
		"etcdadm join https://a:2379 --retry=false": "",
		"etcdadm --help": "",
		"etcd-manager-ctl -member-count=3 configure-cluster": "",
		"etcdadm jion https://a:2379":                        `unknown command "jion"`,
		"etcdadm join --no-such":                             "no flag --no-such",
		"etcdadm status -Z":                                  "no flag -Z",
		"etcd-manager-ctl forget-node":                       "accepts 1 arg",
	} {
		err := taken(strings.Fields(line))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	text := "a `etcdadm init --name=a` b\n\n    sudo etcdadm join \\\n      https://a:2379 # x\n    other | etcdadm " +
		"status\n"
	if got, want := commandLines(text),
		"[etcdadm init --name=a ... etcdadm join https://a:2379 etcdadm status]"; fmt.Sprint(
		got) != want {
		t.Errorf("found %v, want %s", got, want)
	}
}

var (
	inline  = regexp.MustCompile("`(etcdadm|etcd-manager|etcd-manager-ctl|etcd-backup) [^`]+`")
	comment = regexp.MustCompile(`(^|\s)#.*`)
	// between are what a shell puts between commands, and what may come before one.
	between = regexp.MustCompile(`\|\||&&|[;|]|\$\(`)
	before  = regexp.MustCompile(`^(\$ |- |sudo |[A-Z_]+=\S+ |exec |\S*/)*`)
	ours    = regexp.MustCompile(`^(etcdadm|etcd-manager|etcd-manager-ctl|etcd-backup)( |$)`)
)

// commandLines returns the command lines of our programs in a page: in code, and
// between backquotes.
func commandLines(page string) (found []string) {
	lines := strings.Split(page, "\n")
	fenced := false
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if fence := strings.HasPrefix(strings.TrimSpace(line), "```"); fence {
			fenced = !fenced
			continue
		}
		if !fenced && !strings.HasPrefix(line, "    ") {
			for _, span := range inline.FindAllString(line, -1) {
				// A sentence may leave out arguments.
				found = append(found, strings.Trim(span, "`")+" ...")
			}
			continue
		}
		for strings.HasSuffix(line, "\\") && i+1 < len(lines) {
			i++
			line = strings.TrimSuffix(line, "\\") + " " + lines[i]
		}
		for _, part := range between.Split(comment.ReplaceAllString(line, ""), -1) {
			part = before.ReplaceAllString(strings.TrimSpace(part), "")
			if rest, ok := strings.CutPrefix(part, "ctl "); ok { // the alias that a page makes
				part = "etcd-manager-ctl " + rest
			}
			if ours.MatchString(part) {
				found = append(found, strings.Join(strings.Fields(part), " "))
			}
		}
	}
	return found
}

// placeholder is an argument that stands for others.
var placeholder = regexp.MustCompile(`\.\.\.|[\[\]<>|]|^[>&]`)

// taken returns why a program would not take the arguments.
func taken(argv []string) error {
	root := programs()[argv[0]]
	root.SetContext(context.Background())
	root.InitDefaultCompletionCmd(argv[1:]...)
	cmd, rest, err := root.Find(cli.SingleDash(argv[1:], root.Flags()))
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	var args []string
	open := false
	for i := 0; i < len(rest); i++ {
		arg := rest[i]
		switch name, _, value := strings.Cut(strings.TrimLeft(arg, "-"), "="); {
		case placeholder.MatchString(arg):
			open = true
			if arg == "|" {
				i = len(rest)
			}
		case arg == "--":
			args = append(args, rest[i+1:]...)
			i = len(rest)
		case cmd.CommandPath() == "etcdadm etcdctl" && !strings.HasPrefix(arg, "-"):
			args, i = append(args, rest[i:]...), len(rest) // the rest is etcdctl's
		case !strings.HasPrefix(arg, "-") || arg == "-":
			args = append(args, arg)
		default:
			flag := cmd.Flag(name)
			if len(name) == 1 {
				flag = cmd.Flags().ShorthandLookup(name)
			}
			if flag == nil {
				return fmt.Errorf("no flag %s", arg)
			}
			if !value && flag.NoOptDefVal == "" && i+1 < len(rest) && rest[i+1] != "..." {
				i++
			}
		}
	}
	if cmd.HasSubCommands() && !cmd.Runnable() && len(args) > 0 && args[0] != strings.ToUpper(args[0]) {
		return fmt.Errorf("no command %q", args[0])
	}
	if open || cmd.Args == nil {
		return nil
	}
	return cmd.Args(cmd, args)
}
