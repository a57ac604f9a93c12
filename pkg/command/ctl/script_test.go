package ctl

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"etcd-manager-ctl": func() {
			store.Register("hang", func(*url.URL) (store.Dial, error) {
				return func(ctx context.Context) (*store.Bucket, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}, nil
			})
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			code := cli.Run(ctx, New(), os.Args[1:])
			stop()
			os.Exit(code)
		},
	})
}

// TestScripts runs the scripts in testdata/script against stores in
// directories. Besides the commands of package testscript they have
//
//	ctl CODE ARGS...   run etcd-manager-ctl on $WORK/store; it must exit with CODE
//	exits CODE ARGS... run any command
//	taken NAME CLUSTER REVISION  put a backup with a description into $WORK/store
//	await FILE REGEXP  wait until a file matches
//	stamp FILE         replace @-5s@ in a file by the time 5 seconds ago, and $DAEMON and $NOBODY, the
//	                   addresses of a daemon's port, and of one where nobody listens
func TestScripts(t *testing.T) {
	daemon, nobody := answering(t, nil), testport.Address(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			// Under the race detector a process waits a second before it exits.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("DAEMON", daemon)
			env.Setenv("NOBODY", nobody)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ctl": func(ts *testscript.TestScript, _ bool, args []string) {
				exits(ts, append([]string{args[0], "etcd-manager-ctl", "--backup-store=file://" + ts.Getenv("WORK") + "/store"},
					args[1:]...))
			},
			"exits": func(ts *testscript.TestScript, _ bool, args []string) { exits(ts, args) },
			"stamp": stamp,
			"taken": taken,
			"await": await,
		},
	})
}

// exits runs a command and fails unless it exits with the code args[0].
func exits(ts *testscript.TestScript, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code is %d, want %d", got, want)
	}
}

var stamps = regexp.MustCompile(`@(-?[0-9a-z]+)@`)

func stamp(ts *testscript.TestScript, _ bool, args []string) {
	file := ts.MkAbs(args[0])
	text := stamps.ReplaceAllStringFunc(ts.ReadFile(file), func(s string) string {
		d, err := time.ParseDuration(s[1 : len(s)-1])
		ts.Check(err)
		return time.Now().Add(d).UTC().Format(time.RFC3339)
	})
	for _, name := range []string{"DAEMON", "NOBODY"} {
		text = strings.ReplaceAll(text, "$"+name, ts.Getenv(name))
	}
	ts.Check(os.WriteFile(file, []byte(text), 0o600))
	ts.Logf("%s", fmt.Sprintf("%.200s", text))
}

// taken puts a backup into the store that says what it is of: args are its name, its cluster
// and its revision.
func taken(ts *testscript.TestScript, _ bool, args []string) {
	revision, err := strconv.ParseInt(args[2], 10, 64)
	ts.Check(err)
	digest := func(text string) backup.Digest {
		return backup.Digest{Size: int64(len(text)), SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(text)))}
	}
	const marker, data = `{"etcdVersion":"3.6.10"}`, "data"
	b, err := backup.Description{
		Format: 1, Name: args[0], Info: backup.Info{EtcdVersion: etcdversion.Must("3.6.10")},
		Facts:   backup.Facts{Cluster: args[1], Revision: cluster.Revision(revision)},
		Content: digest(data), Object: digest(data), Marker: digest(marker), Compression: backup.Gzip,
	}.Encode()
	ts.Check(err)
	dir := ts.MkAbs("store/" + args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	for name, text := range map[string]string{
		"etcd.backup.gz": data, retention.MarkerFile: marker, retention.DescriptionFile: string(b),
	} {
		ts.Check(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

// await waits until the file args[0] matches args[1].
func await(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile(args[1])
	deadline := time.Now().Add(testwait.Limit)
	for {
		// It may not be there yet.
		b, _ := os.ReadFile(ts.MkAbs(args[0]))
		if want.Match(b) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s does not match %s:\n%s", args[0], args[1], b)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
