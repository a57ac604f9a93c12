package operate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// onDisk returns a configuration with data below a directory of the test.
func onDisk(t *testing.T) machine.Config {
	t.Helper()
	cfg := machine.Defaults()
	cfg.Paths.Data = filepath.Join(t.TempDir(), "lib", "etcd")
	return cfg
}

// live makes the data of a member that says who it is.
func live(t *testing.T, cfg machine.Config, who string) {
	t.Helper()
	dir := filepath.Join(cfg.Paths.Member(), "wal")
	if err := errors.Join(os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "who"), []byte(who), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// who returns whose data is in a directory, "" if none is.
func who(dir string) string {
	b, _ := os.ReadFile(filepath.Join(dir, "member", "wal", "who")) // none is what the caller asks for
	return string(b)
}

// mounted makes the data directory a mount point.
func mounted(t *testing.T, cfg machine.Config) {
	t.Helper()
	if err := os.MkdirAll(cfg.Paths.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	err := unix.Mount("tmpfs", cfg.Paths.Data, "tmpfs", 0, "size=1m")
	if errors.Is(err, unix.EPERM) {
		t.Skip("mounting is not permitted here")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(cfg.Paths.Data, unix.MNT_DETACH) })
}

// at is a moment, so many seconds after some other.
func at(seconds int) time.Time {
	return time.Date(2026, 1, 2, 3, 4, seconds, 5, time.FixedZone("far", 9*3600))
}

func TestSetAsideKeepsTheLast(t *testing.T) {
	for _, place := range []string{"a directory", "a mount point", "a pattern"} {
		t.Run(place, func(t *testing.T) {
			cfg := onDisk(t)
			switch place {
			case "a mount point":
				mounted(t, cfg)
			case "a pattern":
				cfg.Paths.Data = filepath.Join(t.TempDir(), "disk[1]", "etcd")
			}
			for i := range 2 * keepAside {
				live(t, cfg, fmt.Sprint(i))
				if err := setAside(cfg, at(i)); err != nil {
					t.Fatal(err)
				}
				if who(cfg.Paths.Data) != "" {
					t.Fatal("the data is where it was")
				}
				got := dataSetAside(cfg)
				if len(got) == 0 || len(got) > keepAside || who(got[len(got)-1]) != fmt.Sprint(i) {
					t.Fatalf("after %d: %q", i, got)
				}
			}
			var kept []string
			for _, dir := range dataSetAside(cfg) {
				kept = append(kept, who(dir))
			}
			if want := []string{"3", "4", "5"}; !slices.Equal(kept, want) {
				t.Errorf("the data of %q is kept, want %q", kept, want)
			}
		})
	}
}

// The oldest goes first, wherever it is.
func TestAsidesOfBothKinds(t *testing.T) {
	cfg := onDisk(t)
	for _, name := range []string{
		cfg.Paths.SetAside() + "/20260101T000000.000000000Z", cfg.Paths.Data + "/set-aside-20250101T000000.000000000Z",
		cfg.Paths.SetAside() + "/20240101T000000.000000000Z",
	} {
		if err := os.MkdirAll(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	got := dataSetAside(cfg)
	if len(got) != 3 || !strings.Contains(got[0], "2024") || !strings.Contains(got[1], "2025") ||
		!strings.Contains(got[2], "2026") {
		t.Errorf("%q", got)
	}
}

func TestSetAsideNothing(t *testing.T) {
	for _, place := range []string{"no directory", "a mount point"} {
		t.Run(place, func(t *testing.T) {
			cfg := onDisk(t)
			if err := os.MkdirAll(filepath.Dir(cfg.Paths.Data), 0o755); err != nil {
				t.Fatal(err)
			}
			if place == "a mount point" {
				mounted(t, cfg)
			}
			if err := setAside(cfg, at(0)); err != nil {
				t.Errorf("where there is no data: %v", err)
			}
		})
	}
}

func TestSetAsideThatCannot(t *testing.T) {
	cfg := onDisk(t)
	live(t, cfg, "a")
	if err := os.WriteFile(cfg.Paths.SetAside(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := setAside(cfg, at(0)); err == nil || !strings.Contains(err.Error(), cfg.Paths.SetAside()) {
		t.Errorf("with a file in the way: %v", err)
	}
	if who(cfg.Paths.Data) != "a" {
		t.Error("the data is gone")
	}
}

func TestDiscard(t *testing.T) {
	for _, place := range []string{"a directory", "a mount point"} {
		t.Run(place, func(t *testing.T) {
			cfg := onDisk(t)
			if place == "a mount point" {
				mounted(t, cfg)
			}
			live(t, cfg, "a")
			if err := discard(cfg); err != nil {
				t.Fatal(err)
			}
			if exists(cfg.Paths.Data) != (place == "a mount point") || exists(cfg.Paths.Member()) {
				t.Error("the data is still there")
			}
			if err := discard(cfg); err != nil {
				t.Errorf("again: %v", err)
			}
		})
	}
}

// What is not etcd's stays, and so does older data that was moved aside.
func TestDiscardOnlyTheMember(t *testing.T) {
	cfg := onDisk(t)
	live(t, cfg, "a")
	for _, name := range []string{"lost+found/x", "set-aside-20250101T000000.000000000Z/member/wal/who"} {
		path := filepath.Join(cfg.Paths.Data, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("old"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := discard(cfg); err != nil {
		t.Fatal(err)
	}
	aside := dataSetAside(cfg)
	if !exists(filepath.Join(cfg.Paths.Data, "lost+found", "x")) || len(aside) != 1 || who(aside[0]) != "old" {
		t.Error("more than the member is deleted")
	}
}

// A deletion that was cut short goes on, also beside a member that was made
// since: that one is deleted too, because it is what was asked for.
func TestDiscardGoesOn(t *testing.T) {
	cfg := onDisk(t)
	half := filepath.Join(cfg.Paths.Discarded(), "wal")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := discard(cfg); err != nil || exists(cfg.Paths.Data) {
		t.Errorf("half of it is still there: %v", err)
	}
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	live(t, cfg, "b")
	if err := discard(cfg); err != nil || exists(cfg.Paths.Data) {
		t.Errorf("half of it is still there: %v", err)
	}
}

// A full disk does not keep anybody from moving data aside and deleting it.
func TestFullDisk(t *testing.T) {
	cfg := onDisk(t)
	mounted(t, cfg)
	live(t, cfg, "a")
	ballast := filepath.Join(cfg.Paths.Data, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if err := discard(cfg); err != nil {
		t.Errorf("discard: %v", err)
	}
	if exists(cfg.Paths.Member()) || !exists(ballast) {
		t.Error("something else is deleted")
	}
}

func TestRecord(t *testing.T) {
	cfg := onDisk(t)
	if r, err := readRecord(cfg); err != nil || r != (machine.Record{}) {
		t.Errorf("none: %+v, %v", r, err)
	}
	want := machine.Record{Token: "0123456789abcdef", Action: machine.Init, Served: true, Restored: "/x"}
	if err := writeRecord(cfg, want); err != nil {
		t.Fatal(err)
	}
	if r, err := readRecord(cfg); err != nil || r != want {
		t.Errorf("%+v, %v", r, err)
	}
	if info, err := os.Stat(cfg.Paths.Record()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for range 2 {
		if err := writeRecord(cfg, machine.Record{}); err != nil || exists(cfg.Paths.Record()) {
			t.Errorf("forgotten: %v", err)
		}
	}
	for _, text := range []string{"", "{", `"x"`, `{"action":7}`} {
		if err := os.WriteFile(cfg.Paths.Record(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readRecord(cfg); err == nil || !strings.Contains(err.Error(), cfg.Paths.Record()) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
