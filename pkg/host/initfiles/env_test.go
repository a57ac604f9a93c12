package initfiles

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// member is the environment of a member as the package etcdconf writes it.
func member(t *testing.T) []string {
	t.Helper()
	files := func(name string) etcdconf.Files {
		return etcdconf.Files{CA: "/etc/etcd/pki/ca.crt", Cert: "/etc/etcd/pki/" + name + ".crt",
			Key: "/etc/etcd/pki/" + name + ".key"}
	}
	urls := cluster.URLs{Peer: []string{"https://10.0.0.1:2380"}, Client: []string{"https://10.0.0.1:2379"}}
	return must[[]string](t)(etcdconf.Env(etcdconf.Member{
		Name: "node-1", Version: etcdversion.Must("3.6.16"), Token: "0a1b2c3d", DataDir: "/var/lib/etcd",
		State: etcdconf.StateNew, Peers: []cluster.InitialMember{{Name: "node-1", PeerURLs: urls.Peer}}, URLs: urls,
		Address: "10.0.0.1", MetricsURLs: []string{"http://127.0.0.1:2381"},
		TLS: &etcdconf.TLS{Peer: files("peer"), Client: files("server")},
	}))
}

func TestEnvFileCanBeReadWithGrep(t *testing.T) {
	text := must[string](t)(EnvFile(append(member(t), "GOMAXPROCS=2", "EXTRA=two words # and $HOME")))
	golden(t, "etcd.env", text)
	for _, line := range []string{"ETCD_NAME=node-1", "ETCD_INITIAL_ADVERTISE_PEER_URLS=https://10.0.0.1:2380"} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
}

func TestEnvFileQuotes(t *testing.T) {
	tests := []struct{ value, want string }{
		{"", "K="},
		{"https://[::1]:2379,https://10.0.0.1:2379", "K=https://[::1]:2379,https://10.0.0.1:2379"},
		{"a=b", "K=a=b"},
		{"two words", `K="two words"`},
		{" x ", `K=" x "`},
		{"a#b;c", `K="a#b;c"`},
		{`a"b`, `K="a\"b"`},
		{`a'b`, `K="a'b"`},
		{`C:\x`, `K="C:\\x"`},
		{"$HOME", `K="\$HOME"`},
		{"`id`", "K=\"\\`id\\`\""},
		{"~root", `K="~root"`},
		{"a\tb", "K=\"a\tb\""},
		{"größe", `K="größe"`},
	}
	for _, tt := range tests {
		text := must[string](t)(EnvFile([]string{"K=" + tt.value}))
		if got := strings.TrimSuffix(strings.TrimPrefix(text, header), "\n"); got != tt.want {
			t.Errorf("%q is written as %s, want %s", tt.value, got, tt.want)
		}
	}
}

func TestEnvFileRefuses(t *testing.T) {
	for env, want := range map[string]string{
		"K=a\nb":       `has the character '\n'`,
		"K=a\rb":       `has the character '\r'`,
		"K=a\x00b":     `has the character '\x00'`,
		"K=a\x7f":      `has the character '\x7f'`,
		"K=a\xff":      "is not UTF-8",
		"K=a\ufffe":    "has the character",
		"K":            "not of the form KEY=VALUE",
		"=x":           "not of the form KEY=VALUE",
		"a-b=x":        "not of the form KEY=VALUE",
		"export K=x":   "not of the form KEY=VALUE",
		"ETCD_NAME=no": "ETCD_NAME is there twice",
	} {
		if _, err := EnvFile([]string{"ETCD_NAME=x", env}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want ... %s", env, err, want)
		}
	}
}

// someValues are values made of what is special to somebody.
func someValues(n int) []string {
	const letters = "ab1 \t\"\"''\\\\##;;$$``=~!%&|<>(){}[]*?ü€😀\u00a0"
	all := []rune(letters)
	r := rand.New(rand.NewPCG(1, 2))
	values := make([]string, n)
	for i := range values {
		var b strings.Builder
		for range r.IntN(12) {
			b.WriteRune(all[r.IntN(len(all))])
		}
		values[i] = b.String()
	}
	return values
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, v := range someValues(20000) {
		text := must[string](t)(EnvFile([]string{"A=" + v, "B=" + v}))
		vars, err := ParseEnvFile(text)
		if err != nil || len(vars) != 2 || vars["A"] != v || vars["B"] != v {
			t.Fatalf("%q is written as %q and read as %q, %v", v, text, vars, err)
		}
	}
}

func FuzzParseEnvFile(f *testing.F) {
	for _, v := range someValues(20) {
		f.Add("# x\nK=" + v + "\nL=\"" + v)
	}
	f.Fuzz(func(t *testing.T, text string) {
		vars, err := ParseEnvFile(text)
		if err != nil {
			return
		}
		for k, v := range vars {
			written, err := EnvFile([]string{k + "=" + v})
			if err != nil {
				continue // a character that does not go into our files
			}
			if again, err := ParseEnvFile(written); err != nil || again[k] != v {
				t.Errorf("%q, %q: written as %q, read as %q, %v", k, v, written, again, err)
			}
		}
	})
}

// TestShellReadsTheSame has sh source the file.
func TestShellReadsTheSame(t *testing.T) {
	values := someValues(300)
	var env, script []string
	path := filepath.Join(t.TempDir(), EnvName)
	for i, v := range values {
		k := "K" + strings.Repeat("x", i)
		env = append(env, k+"="+v)
		script = append(script, `printf '%s\n' "$`+k+`"`)
	}
	if err := os.WriteFile(path, []byte(must[string](t)(EnvFile(env))), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", ". "+path+"\n"+strings.Join(script, "\n")).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(got) != len(values) {
		t.Fatalf("%d lines for %d values", len(got), len(values))
	}
	for i := range values {
		if got[i] != values[i] {
			t.Errorf("sh reads %q as %q", env[i], got[i])
		}
	}
}

// generator is a part of systemd that reads its files with the function that
// reads environment files, and prints what it has read.
const generator = "/usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator"

func TestSystemdReadsTheSame(t *testing.T) {
	if _, err := os.Stat(generator); err != nil {
		t.Skip("systemd is not installed")
	}
	dir, want := t.TempDir(), map[string]string{}
	var env []string
	for i, v := range someValues(500) {
		if v == "" || strings.Contains(v, "$") {
			continue // it prints no empty ones, and expands $, other than in environment files
		}
		k := "K" + strings.Repeat("x", i)
		want[k] = v
		env = append(env, k+"="+v)
	}
	path := filepath.Join(dir, "environment.d", "test.conf")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(must[string](t)(EnvFile(env))), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(generator)
	cmd.Env = []string{"XDG_CONFIG_HOME=" + dir, "HOME=" + dir}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if w, ok := want[k]; ok && unescape(v) == w {
			delete(want, k)
		}
	}
	for _, v := range want {
		t.Errorf("systemd does not read %q, written as %s", v, quoteEnv(v))
	}
}

// unescape reads how systemd prints a value.
func unescape(v string) string {
	v = strings.TrimSuffix(strings.TrimPrefix(v, `"`), `"`)
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`, "\\`", "`", `\t`, "\t").Replace(v)
}

// The form of the retired etcdadm, comments by section.
const retired = `
# Initial cluster configuration
ETCD_INITIAL_CLUSTER=node-1=https://10.0.0.1:2380
ETCD_INITIAL_CLUSTER_TOKEN=1a2b3c4d

; other
ETCD_DATA_DIR=/var/lib/etcd
  GOMAXPROCS = 4
`

func TestParseEnvFile(t *testing.T) {
	tests := []struct {
		name, text string
		want       map[string]string
	}{
		{"empty", "", map[string]string{}},
		{"the retired tool's", retired, map[string]string{
			"ETCD_INITIAL_CLUSTER": "node-1=https://10.0.0.1:2380", "ETCD_INITIAL_CLUSTER_TOKEN": "1a2b3c4d",
			"ETCD_DATA_DIR": "/var/lib/etcd", "GOMAXPROCS": "4",
		}},
		{"the last one counts", "A=1\nA=2", map[string]string{"A": "2"}},
		{"no line end", "A=1", map[string]string{"A": "1"}},
		{"an escaped character at the end", `A=1\`, map[string]string{"A": "1"}},
		{"of another system", "A=1\r\nB=2\r\n", map[string]string{"A": "1", "B": "2"}},
		{"blanks around", "A=  x y \t \nB=\"x \"  \n", map[string]string{"A": "x y", "B": "x "}},
		{"quotes inside", `A=x"y'z`, map[string]string{"A": `x"y'z`}},
		{"quotes in a row", `A="x"'y'z `, map[string]string{"A": "xyz"}},
		{"backslashes", `A=a\ b\\\#` + "\nB='a\\'\n" + `C="\a\$"`, map[string]string{"A": `a b\#`, "B": `a\`, "C": `\a$`}},
		{"continued", "A=a\\\nb\nB=\"a\\\nb\"", map[string]string{"A": "ab", "B": "ab"}},
		{"over two lines", "A='a\nb'", map[string]string{"A": "a\nb"}},
		{"a hash inside", "A=a #b", map[string]string{"A": "a #b"}},
		{"not an assignment", "A\nexport B=1\n=x\nC=1", map[string]string{"C": "1"}},
		{"a comment does not go on", "# x \\\nA=1\n# \\x y\nB=1", map[string]string{"A": "1", "B": "1"}},
	}
	for _, tt := range tests {
		got := must[map[string]string](t)(ParseEnvFile(tt.text))
		if len(got) != len(tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		for k, v := range tt.want {
			if got[k] != v {
				t.Errorf("%s: %s is %q, want %q", tt.name, k, got[k], v)
			}
		}
	}
}

func TestOpenQuoteIsAnError(t *testing.T) {
	for _, text := range []string{"A=1\nB='x\nC=2\n", "A=1\nB=\"x\nC=2\n", "A=1\nB=\"x\\"} {
		if _, err := ParseEnvFile(text); err == nil || !strings.Contains(err.Error(), "line 2 is not closed") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
