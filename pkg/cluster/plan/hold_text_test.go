package plan_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// TestCommandsInHoldsSayWhichStore makes sure that a command line that a hold gives
// can be pasted: etcd-manager-ctl does nothing without the store.
func TestCommandsInHoldsSayWhichStore(t *testing.T) {
	command := regexp.MustCompile(`etcd-manager-ctl [a-z][a-z-]*`)
	texts := map[string]string{}
	for _, d := range plan.Reasons() {
		texts[string(d.Reason)] = d.Means + " " + d.Do
	}
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if strings.HasPrefix(line, "hold ") {
				texts[f] += line
			}
		}
	}
	for where, text := range texts {
		if bad := command.FindString(text); bad != "" {
			t.Errorf("%s: %q does not say which store", where, bad)
		}
	}
}
