package etcdconf

import (
	"context"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

// samples are values that etcd takes for the kinds of flags, and for flags of
// which it takes few.
var samples = map[string]string{
	"text": "x", "bool": "true", "int": "5", "uint": "5", "duration": "5s", "urls": "https://10.0.0.1:1",
	"cors": "*", "discovery-fallback": "exit", "initial-cluster-state": "new", "proxy": "off",
	"v2-deprecation": "write-only",
}

// inHelpOnly are flags that etcd's help of a minor version names and its
// parser does not know.
var inHelpOnly = map[int][]string{7: {"discovery", "discovery-proxy"}}

var (
	helpFlag = regexp.MustCompile(`(?m)^ +--([a-z][a-z0-9-]*)`)
	helpGate = regexp.MustCompile(`(?m)^ +([A-Z]\w+)=true\|false`)
)

// TestFlagsAreThoseOfRealEtcd compares the table with each etcd that is tested: its
// parser takes all flags of the table with values of their kinds, its help
// names none that the table lacks, and it has the same feature gates.
func TestFlagsAreThoseOfRealEtcd(t *testing.T) {
	f := etcdtest.Finder(t)
	for _, v := range etcdtest.Managed() {
		t.Run(v.String(), func(t *testing.T) {
			b, err := f.Find(v)
			if err != nil {
				t.Fatal(err)
			}
			flags := flagsOf(v.Minor)
			help := output(t, b.Etcd, "--help")
			for _, m := range helpFlag.FindAllStringSubmatch(help, -1) {
				if _, ok := flags[m[1]]; !ok && !slices.Contains(inHelpOnly[v.Minor], m[1]) {
					t.Errorf("the table lacks %s", m[1])
				}
			}
			gates := 0
			for _, m := range helpGate.FindAllStringSubmatch(help, -1) {
				gates++
				if since, ok := gatesSince[m[1]]; !ok || since > v.Minor {
					t.Errorf("the gate %s is not known", m[1])
				}
			}
			for _, since := range gatesSince {
				if since <= v.Minor {
					gates--
				}
			}
			if gates != 0 {
				t.Errorf("%d feature gates more than are known", gates)
			}
			takesAll(t, b.Etcd, flags)
			refuses(t, b.Etcd, v.Minor)
		})
	}
}

// takesAll gives etcd's parser every flag of the table.
func takesAll(t *testing.T, etcd string, flags map[string]knownFlag) {
	t.Helper()
	var args []string
	for name, k := range flags {
		value, ok := samples[name]
		if !ok {
			value = samples[k.kind]
		}
		if k.kind == "gates" {
			value = "CompactHashCheck=true"
		}
		if reason := badValue(k.kind, value, newest); reason != "" {
			t.Errorf("%s %s", name, reason)
		}
		args = append(args, "--"+name+"="+value)
	}
	// It stops at the first flag that is wrong.
	if got := output(t, etcd, append(args, "--version")...); !strings.Contains(got, "etcd Version:") {
		t.Errorf("etcd does not take all flags of the table: %.200s", got)
	}
}

// refuses gives etcd's parser some flags that only other minor versions have.
func refuses(t *testing.T, etcd string, minor int) {
	t.Helper()
	for _, name := range []string{
		"enable-v2", "corrupt-check-time", "experimental-corrupt-check-time", "feature-gates", "discovery", "debug",
	} {
		_, known := flagsOf(minor)[name]
		undefined := strings.Contains(output(t, etcd, "--"+name+"=x", "--version"), "not defined")
		if known == undefined {
			t.Errorf("%s: known by the table: %t, and by etcd: %t", name, known, !undefined)
		}
	}
	for kind, bad := range map[string]string{
		"snapshot-count": "lots", "pre-vote": "yes", "max-snapshots": "-1", "grpc-keepalive-timeout": "10",
	} {
		k := flagsOf(minor)[kind]
		if badValue(k.kind, bad, minor) == "" ||
			!strings.Contains(output(t, etcd, "--"+kind+"="+bad, "--version"), "invalid") {
			t.Errorf("%s=%s is taken", kind, bad)
		}
	}
}

// output returns all that a command prints; etcd's exit code after its help is
// not 0.
func output(t *testing.T, path string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = t.TempDir()
	b, _ := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%s %s hangs", path, strings.Join(args, " "))
	}
	return string(b)
}
