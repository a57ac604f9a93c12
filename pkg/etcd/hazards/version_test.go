package hazards

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// isOf waits for the data to say that it is of a minor version: what etcd has said it may
// not have written yet.
func isOf(t *testing.T, m *etcdtest.Member, minor int) {
	t.Helper()
	testwait.For(t, fmt.Sprintf("data of 3.%d", minor), func(context.Context) error {
		v, err := DataVersion(datadir.At(m.DataDir))
		if err == nil && v != (etcdversion.Version{Major: 3, Minor: minor}) {
			err = fmt.Errorf("it is of %s", v)
		}
		return err
	})
}

// The data of a member says which version it is of, while it runs and afterwards.
func TestDataVersion(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		m := etcdtest.New(t, "a")
		if v, err := DataVersion(datadir.At(m.DataDir)); err != nil || !v.IsZero() {
			t.Errorf("of no data: %s, %v", v, err)
		}
		serve(t, m, bin)
		isOf(t, m, bin.Version.Minor)
		m.Kill()
		isOf(t, m, bin.Version.Minor)
	})
}

// A downgrade makes the data that of the earlier version, and a member that has run it
// may run that one.
func TestDataVersionOfADowngrade(t *testing.T) {
	bin := etcdtest.Binaries(t, etcdtest.V36)
	t.Parallel()
	m := etcdtest.New(t, "a")
	serve(t, m, bin)
	isOf(t, m, 6)
	control := func(args ...string) {
		t.Helper()
		ctl := filepath.Join(filepath.Dir(bin.Etcd), "etcdctl")
		// What has taken effect is refused when it is asked for again, so no try is cut short.
		testwait.For(t, "etcdctl "+args[0], func(context.Context) error {
			argv := append([]string{"--endpoints=" + m.ClientURL, "--command-timeout=1m"}, args...)
			out, err := exec.CommandContext(t.Context(), ctl, argv...).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		})
	}
	control("downgrade", "enable", "3.5.0")
	isOf(t, m, 5)
	control("downgrade", "cancel")
	isOf(t, m, 6)
}

// A snapshot that was restored names the cluster that it was taken from, which may be
// restored with an earlier version.
func TestDataVersionOfARestore(t *testing.T) {
	later, bin := etcdtest.Binaries(t, etcdtest.V36), etcdtest.Binaries(t, "3.5.35")
	t.Parallel()
	source := etcdtest.New(t, "a")
	serve(t, source, later)
	isOf(t, source, 6)
	source.Kill()
	m := etcdtest.New(t, "a")
	out, err := exec.Command(filepath.Join(filepath.Dir(bin.Etcd), "etcdutl"), "snapshot", "restore", "--skip-hash-check",
		"--name=a", "--initial-cluster=a="+m.PeerURL, "--initial-advertise-peer-urls="+m.PeerURL, "--data-dir="+m.DataDir,
		datadir.At(source.DataDir).Database()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if v, err := DataVersion(datadir.At(m.DataDir)); err != nil || !v.IsZero() {
		t.Errorf("right after the restore: %s, %v", v, err)
	}
	serve(t, m, bin)
	isOf(t, m, 5)
}

func TestDataVersionOfWhatCannotBeRead(t *testing.T) {
	dir := datadir.At(t.TempDir())
	if err := os.MkdirAll(dir.Snap(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir.Database(), bytes.Repeat([]byte("x"), 1<<15), 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err := DataVersion(dir); err == nil {
		t.Errorf("it is of %s", v)
	}
}

func TestWhichVersionCounts(t *testing.T) {
	low, high := etcdversion.Must("3.5.0"), etcdversion.Must("3.6.0")
	for _, c := range []struct {
		seen versions
		want etcdversion.Version
	}{
		{versions{}, etcdversion.Version{}},
		{versions{cluster: high, storage: high}, high},
		{versions{cluster: high, storage: low}, high},                  // etcd has not followed yet
		{versions{cluster: low, storage: high, downgrade: true}, high}, // nor here
		{versions{cluster: low, downgrade: true}, low},
		{versions{cluster: low, storage: high}, low}, // left over from a snapshot
		{versions{storage: high}, high},
	} {
		if got := c.seen.data(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.seen, got, c.want)
		}
	}
	// Data that etcd has written to since counts as its own.
	dir := datadir.At(t.TempDir())
	if err := os.MkdirAll(dir.Snap(), 0o755); err != nil {
		t.Fatal(err)
	}
	for term, want := range map[int][2]bool{1: {true, false}, 2: {false, false}} {
		name := filepath.Join(dir.Snap(), fmt.Sprintf("%016x-%016x.snap", term, 3))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := [2]bool{justRestored(dir, 3), justRestored(dir, 4)}; got != want {
			t.Errorf("term %s: %v", strconv.Itoa(term), got)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}
