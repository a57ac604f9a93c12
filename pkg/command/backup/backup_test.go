package backup

import (
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cli"
)

func TestSaysWhatItCannotDo(t *testing.T) {
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"", 1, "", "error: etcd-backup comes with a later release\nhint: the daemon etcd-manager takes backups"},
		{"--cluster-name=etcd -backup-store=/backups -client-url=http://127.0.0.1:4001 -v=2", 1, "", "a later release"},
		{"-o json", 1, "", `"kind":"failed"`},
		{"version", 0, "etcd-backup ", ""},
		{"version -o json", 0, `"program": "etcd-backup"`, ""},
		{"--version", 0, "etcd-backup version", ""},
		{"now", 2, "", `unknown command "now"`},
		{"--cluster", 2, "", "unknown flag --cluster"},
	} {
		root := New()
		var stdout, stderr strings.Builder
		root.SetOut(&stdout)
		root.SetErr(&stderr)
		code := cli.Run(t.Context(), root, strings.Fields(c.args))
		if code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", c.args, code, stdout.String(), stderr.String())
		}
	}
}
