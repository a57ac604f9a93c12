package ctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/etcdadm/etcdadm/pkg/cli"
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
	ctx, interrupt := context.WithCancel(t.Context())
	err = tool.recorded(ctx, &cobra.Command{}, s, act{words: []string{"pause", "--reason=a b"}}, func() error {
		if e := last(); e.Line != "etcd-manager-ctl pause '--reason=a b'" || e.Error != "" || !e.Requested {
			t.Errorf("before the change it is %+v", e)
		}
		interrupt() // the record says so also then
		return denied
	})
	if e := last(); !errors.Is(err, denied) || e.Error != "denied" {
		t.Errorf("after %v it is %+v", err, e)
	}
}

// Nobody waits for old records to be deleted before what was asked for is done.
func TestOldRecordsAreDeletedAfterTheChange(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range store.MaxAudit + 1 {
		if err := s.Put(t.Context(), fmt.Sprintf("control/audit/0-%02d", i), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	count := func() int {
		all, err := os.ReadDir(filepath.Join(dir, "control", "audit"))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	tool := &tool{now: time.Now}
	if err := tool.recorded(t.Context(), &cobra.Command{}, s, act{words: []string{"resume"}}, func() error {
		if n := count(); n != store.MaxAudit+2 {
			t.Errorf("before the change there are %d", n)
		}
		return nil
	}); err != nil || count() != store.MaxAudit {
		t.Errorf("after it there are %d, %v", count(), err)
	}
}

// slowAudit is a bucket whose records of who asks are written by block.
func slowAudit(t *testing.T, block func(ctx context.Context) error) *store.Store {
	t.Helper()
	blobs := memblob.OpenBucket(nil)
	write := func(ctx context.Context, key string, r io.Reader, _ store.WriteOptions) error {
		if strings.HasPrefix(key, "control/audit/") {
			return block(ctx)
		}
		return blobs.Upload(ctx, key, r, &blob.WriterOptions{ContentType: "text/plain"})
	}
	store.Register("audit", func(*url.URL) (store.Dial, error) {
		return func(context.Context) (*store.Bucket, error) {
			return &store.Bucket{Blobs: blobs, Write: write}, nil
		}, nil
	})
	s, err := store.Open(t.Context(), "audit://bucket/")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A store that does not take the record takes the change at once, and the change has most of the time.
func TestAStoreThatTakesNoRecordIsPausedAtOnce(t *testing.T) {
	for timeout, limit := range map[time.Duration]time.Duration{
		30 * time.Second: recordTime, time.Second: time.Second / 4,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := slowAudit(t, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			var said, out bytes.Buffer
			cmd, began := &cobra.Command{Use: "pause"}, time.Now()
			tool := &tool{now: time.Now, root: cmd, out: cli.AddOutput(cmd, cli.Table)}
			cmd.SetErr(&said)
			cmd.SetOut(&out)
			if err := tool.pause(ctx, cmd, s, "disk swap"); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > limit {
				t.Errorf("with --timeout=%s it took %s", timeout, took)
			}
			if list, err := pauses(ctx, s); err != nil || len(list) != 1 || list[0].Reason != "disk swap" {
				t.Errorf("the queue has %+v, %v", list, err)
			}
			if !strings.Contains(said.String(), "warning: the history does not show who asks for this: ") {
				t.Errorf("it says %q", &said)
			}
		})
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
		By: "ann@machine-with-a-long-name.example.org", Requested: true,
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
	long := store.HistoryEntry{By: "bartholomew.the.second@m1", Requested: true}
	if got := historyRow(long, 80)[2]; got != "bartholomew.the.second…" {
		t.Errorf("a long name is %q", got)
	}
	got := historyRow(e, 0)
	if got[2] != string(e.By) || !strings.HasPrefix(got[4], "configure-cluster --member-count=5  # xxx") {
		t.Errorf("into a pipe it is %q", got)
	}
}
