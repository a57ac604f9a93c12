package ctl

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/store"
)

// The record is there before the change, and says how that failed.
func TestWhoAsksIsRecordedFirst(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tool, denied := &tool{now: time.Now}, errors.New("denied")
	last := func() store.HistoryEntry {
		t.Helper()
		list, err := s.History(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("the history is %+v, %v", list, err)
		}
		return list[0]
	}
	err = tool.recorded(t.Context(), &cobra.Command{}, s, act{words: []string{"pause", "--reason=a b"}}, func() error {
		if e := last(); e.Line != "etcd-manager-ctl pause '--reason=a b'" || e.Error != "" || !e.Asked {
			t.Errorf("before the change it is %+v", e)
		}
		return denied
	})
	if e := last(); !errors.Is(err, denied) || e.Error != "denied" {
		t.Errorf("after %v it is %+v", err, e)
	}
}

func TestAPersonBehindSudo(t *testing.T) {
	t.Setenv("SUDO_USER", "")
	self := operator()
	t.Setenv("SUDO_USER", "ann")
	got := operator()
	if want := "ann@"; os.Getuid() == 0 && !strings.HasPrefix(got, want) || os.Getuid() != 0 && got != self {
		t.Errorf("it is %s; without sudo %s", got, self)
	}
}

// On a terminal the person is whole, and what is asked for is not cut for its reason.
func TestThePersonIsNotCutOnATerminal(t *testing.T) {
	e := store.HistoryEntry{
		By: "ann@machine-with-a-long-name.example.org", Asked: true,
		Line: "etcd-manager-ctl configure-cluster --member-count=5", Why: strings.Repeat("x", 400),
	}
	for width, want := range map[int]string{80: "configure-cluster --mem", 100: "configure-cluster --member-count=5  #"} {
		rows := narrow([][]string{{"AT", "TERM", "BY", "TOOK", "OPERATION", "RESULT"}, historyRow(e, width)}, width)
		line := strings.Join(rows[1], "  ")
		if !strings.HasPrefix(rows[1][2], "ann@mach") || len([]rune(line)) > width {
			t.Errorf("with %d columns it is %q", width, line)
		}
		if !strings.HasPrefix(rows[1][4], want) {
			t.Errorf("with %d columns the operation is %q", width, rows[1][4])
		}
	}
	long := store.HistoryEntry{By: "bartholomew.the.second@m1", Asked: true}
	if got := historyRow(long, 80)[2]; got != "bartholomew.the.second…" {
		t.Errorf("a long name is %q", got)
	}
	got := historyRow(e, 0)
	if got[2] != string(e.By) || !strings.HasPrefix(got[4], "configure-cluster --member-count=5  # xxx") {
		t.Errorf("into a pipe it is %q", got)
	}
}
