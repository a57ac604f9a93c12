package operate

import (
	"errors"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// Where nobody answers, the ways without a network are named, in the line that says what is waited for and in
// the error's hint.
func TestADownloadThatFailsNamesTheWaysWithoutANetwork(t *testing.T) {
	cfg := machine.Defaults()
	dir := t.TempDir()
	cfg.Version, cfg.Binaries.ReleaseURL = etcdversion.Must("3.6.16"), "https://127.0.0.1:1"
	cfg.Paths.Install, cfg.Paths.Cache = dir+"/bin", dir+"/cache"
	var said string
	m := &Machine{cfg: cfg, o: Options{Waiting: func(text string) { said = text }}}
	err := m.install(t.Context())
	var hint interface{ Hint() string }
	if !errors.As(err, &hint) {
		t.Fatalf("%v", err)
	}
	if err := m.waitRefused(t.Context(), err, 5*pause); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--binaries-dir=DIR", "--binaries-archive=FILE", "--release-url"} {
		if !strings.Contains(hint.Hint(), want) || !strings.Contains(said, want) || !strings.Contains(said, "127.0.0.1:1") {
			t.Errorf("no %q in %q, or in %q", want, hint.Hint(), said)
		}
	}
}
