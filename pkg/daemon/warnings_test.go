package daemon

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
)

func TestWhatIsOpenToOthersIsSaidAtStart(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, certs.ManagerCA+".key")
	must(t, os.WriteFile(key, nil, 0o600))
	for _, tc := range []struct {
		name                   string
		insecure, etcdInsecure bool
		mode                   os.FileMode
		want                   []string
	}{
		{"nothing", false, false, 0o600, nil},
		{"daemons without certificates", true, false, 0o600, []string{"--insecure"}},
		{"etcd without certificates", false, true, 0o600, []string{"--etcd-insecure"}},
		{"neither has any", true, true, 0o644, []string{"--insecure", "--etcd-insecure"}},
		{"a key that everybody reads", false, false, 0o644, []string{certs.ManagerCA + ".key (mode 0644)"}},
	} {
		must(t, os.Chmod(key, tc.mode))
		var log bytes.Buffer
		d := &Daemon{log: slog.New(slog.NewTextHandler(&log, nil)), now: time.Now, c: Config{
			Insecure: tc.insecure, EtcdInsecure: tc.etcdInsecure, PKIDir: dir,
		}}
		_ = d.openKeys(t.Context()) // there is nothing to issue from
		if n := strings.Count(log.String(), "level=WARN"); n != len(tc.want) {
			t.Errorf("%s: it says %s", tc.name, log.String())
		}
		for _, want := range tc.want {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: it does not say %q: %s", tc.name, want, log.String())
			}
		}
	}
}
