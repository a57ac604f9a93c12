package programs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/etcdbackup"
)

// formless are the commands that print no object: they run until they are ended, or
// print a file or lines that have a form of their own.
var formless = []string{
	"auto", "auto manifest", "auto unit", "completion bash", "completion fish", "completion powershell",
	"completion zsh", "config migrate", "config print", "docs man", "etcdctl", "help", "kubeadm bundle", "kubeadm config",
	"render etcd-backup", "render etcd-manager", "run", "version",
}

// Every other command of etcdadm prints an object of a kind that the page of the
// contract names.
func TestWhatIsPrintedForProgramsIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/cluster-api.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	row := regexp.MustCompile("(?m)^\\|([^|]*)\\| `[A-Z][A-Za-z]+` \\|")
	name := regexp.MustCompile("`([^`]*?)(?: --[^`]*)?`")
	for _, line := range row.FindAllStringSubmatch(string(page), -1) {
		for _, word := range name.FindAllStringSubmatch(line[1], -1) {
			if !strings.HasPrefix(word[1], "-") {
				documented[word[1]] = false
			}
		}
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		_, path, _ := strings.Cut(c.CommandPath(), " ")
		if c.Runnable() && !c.Hidden && c.HasParent() && !isGroup(c) && !slices.Contains(formless, path) {
			command := documentedAs(c, path)
			if _, ok := documented[command]; !ok {
				t.Errorf("the page has no kind of %s", command)
			}
			documented[command] = true
		}
		for _, below := range c.Commands() {
			walk(below)
		}
	}
	root := Etcdadm()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	walk(root)
	for command, there := range documented {
		if !there {
			t.Errorf("the page has a kind of %s, which is no command", command)
		}
	}
}

// isGroup says that a command only has others below it: init, join and auto do
// something themselves.
func isGroup(c *cobra.Command) bool {
	return c.HasSubCommands() && !slices.Contains([]string{"init", "join", "auto"}, c.Name())
}

// documentedAs is how the page calls a command: phases are written of together, and
// so are operations.
func documentedAs(c *cobra.Command, path string) string {
	action, _, phase := strings.Cut(path, " phase ")
	for top := c; top.HasParent(); top = top.Parent() {
		if top.GroupID == "do" {
			return "operations"
		}
	}
	if phase {
		return action
	}
	return path
}

// Every program writes its own manual pages.
func TestEveryProgramWritesItsManualPages(t *testing.T) {
	for _, root := range []*cobra.Command{
		Called("etcdadm"), Called("etcd-manager-ctl"), Called("etcd-manager"), etcdbackup.New(),
	} {
		dir := t.TempDir()
		if code := cli.Run(t.Context(), root, []string{"docs", "man", "--dir=" + dir}); code != 0 {
			t.Errorf("%s docs man ends with %d", root.Name(), code)
		}
		page, err := os.ReadFile(filepath.Join(dir, root.Name()+"-docs-man.1"))
		if err != nil || !strings.Contains(string(page), root.Name()+" docs man --dir=") {
			t.Errorf("the page of %s: %v\n%s", root.Name(), err, page)
		}
	}
}

// Help fits a terminal, but for examples, which are pasted as they are.
func TestHelpIsWrapped(t *testing.T) {
	const columns = 118
	for _, root := range []*cobra.Command{
		Called("etcdadm"), Called("etcd-manager-ctl"), Called("etcd-manager"), etcdbackup.New(),
	} {
		for _, path := range pathsOf(root, nil) {
			var out strings.Builder
			root.SetOut(&out)
			if code := cli.Run(t.Context(), root, append(path, "--help-all")); code != 0 {
				t.Errorf("%s %v --help-all ends with %d", root.Name(), path, code)
			}
			examples := false
			for line := range strings.Lines(out.String()) {
				examples = line == "Examples:\n" || examples && line != "\n"
				if len(strings.TrimSuffix(line, "\n")) > columns && !examples {
					t.Errorf("%s %s has %d columns:\n%s", root.Name(), strings.Join(path, " "), len(line)-1, line)
				}
			}
		}
	}
}

// pathsOf are the commands of a tree, without its name.
func pathsOf(cmd *cobra.Command, to []string) (list [][]string) {
	list = append(list, to)
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			list = append(list, pathsOf(c, append(slices.Clone(to), c.Name()))...)
		}
	}
	return list
}

// What is seldom needed is one line of the first help, and is there as before.
func TestSeldomNeededCommandsAreFolded(t *testing.T) {
	help := func(args ...string) string {
		var out strings.Builder
		root := Called("etcdadm")
		root.SetOut(&out)
		if code := cli.Run(t.Context(), root, args); code != 0 {
			t.Errorf("%q ends with %d", args, code)
		}
		return out.String()
	}
	root, seldom := help("--help"), help("help", "seldom")
	if !strings.Contains(root, "etcdadm help seldom\n") {
		t.Errorf("help does not say where they are:\n%s", root)
	}
	for path, of := range map[string]string{"term": "term reset", "docs": "docs man"} {
		if strings.Contains(root, "\n  "+path+" ") || !strings.Contains(seldom, "\n  "+of+" ") ||
			!strings.Contains(help(append(strings.Fields(of), "--help")...), "Usage:\n  etcdadm "+of) {
			t.Errorf("%s: it is in the first help, or not in the other:\n%s", of, seldom)
		}
	}
}
