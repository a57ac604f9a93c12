package etcdutl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A Tool is the program that restores snapshots for an etcd.
type Tool struct {
	// Path is the program: etcdutl, or etcdctl before 3.5.
	Path string
	// Version is what it says of itself.
	Version etcdversion.Version
	// Bumps says whether it can raise the revision (3.5.10 and later, and late
	// patches of 3.4).
	Bumps bool
}

// A MissingError says that a directory has no tool for a version.
type MissingError struct {
	Version etcdversion.Version
	// Names are the programs that would do.
	Names []string
	Dir   string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("no tool to restore a snapshot for etcd %s: no executable file %s in %s", e.Version,
		strings.Join(e.Names, " or "), e.Dir)
}

// Hint says how to get one.
func (e *MissingError) Hint() string {
	return fmt.Sprintf("put %s of etcd %s into %s; etcd's own release has it: etcdadm download --version=%s", e.Names[0],
		e.Version, e.Dir, e.Version)
}

// A VersionError says that the tool is of another minor version than the etcd
// that is to run on what it makes.
type VersionError struct {
	Path      string
	Got, Want etcdversion.Version
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has version %s; a snapshot for etcd %s is restored by the tool of %d.%d",
		e.Path, e.Got, e.Want, e.Want.Major, e.Want.Minor)
}

// Hint says how to get the right one.
func (e *VersionError) Hint() string {
	return fmt.Sprintf("etcdadm download --version=%s, or name the directory that has its %s", e.Want, names(e.Want)[0])
}

// names are the programs that restore snapshots for a version, the best first.
func names(v etcdversion.Version) []string {
	switch {
	case v.AtLeast(3, 6):
		return []string{"etcdutl"}
	case v.AtLeast(3, 5):
		return []string{"etcdutl", "etcdctl"}
	}
	return []string{"etcdctl"}
}

// Find returns the tool in a directory of binaries for an etcd of version v,
// and asks it what it can do. The error is a [*MissingError] or a
// [*VersionError] if there is none that is right.
func Find(ctx context.Context, dir string, v etcdversion.Version) (Tool, error) {
	for _, name := range names(v) {
		path := filepath.Join(dir, name)
		st, err := os.Stat(path)
		if err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
			continue
		}
		t := Tool{Path: path}
		if t.Version, err = etcdbin.Probe(ctx, path); err != nil {
			return Tool{}, err
		}
		if err := t.learn(ctx); err != nil {
			return Tool{}, fmt.Errorf("ask %s for its features: %w", path, err)
		}
		if t.Version.Major != v.Major || t.Version.Minor != v.Minor {
			return Tool{}, &VersionError{path, t.Version, v}
		}
		return t, nil
	}
	return Tool{}, &MissingError{v, names(v), dir}
}

// helpTimeout bounds what takes milliseconds unless the disk hangs.
const helpTimeout = 10 * time.Second

// learn asks the tool what it can do.
func (t *Tool) learn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, helpTimeout)
	defer cancel()
	help, err := t.run(ctx, "snapshot", "restore", "--help")
	t.Bumps = bytes.Contains(help, []byte("--bump-revision"))
	return err
}

// run runs the tool and returns what it prints. An error has the last lines of
// what it says on its error output.
func (t Tool) run(ctx context.Context, args ...string) ([]byte, error) {
	return t.runWith(ctx, func(int) {}, args...)
}

// runWith is run; it calls started with the id of the process.
func (t Tool) runWith(ctx context.Context, started func(pid int), args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, t.Path, args...)
	cmd.Env = []string{} // an ETCD_* variable of ours is not for it
	if strings.HasSuffix(t.Path, "etcdctl") {
		cmd.Env = append(cmd.Env, "ETCDCTL_API=3")
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	// Should this process be killed, it must not go on writing. The signal comes
	// when the thread ends that started it (golang/go#27505), so that must not.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := cmd.Start()
	if err == nil {
		started(cmd.Process.Pid)
		err = cmd.Wait()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, etcdbin.Said(err, stderr.String()+stdout.String())
	}
	return stdout.Bytes(), nil
}

// A Status is what the tool says of a snapshot file.
type Status struct {
	Hash     uint32           `json:"hash"`
	Revision cluster.Revision `json:"revision"`
	// TotalKey counts the keys; before 3.6 all entries of the database.
	TotalKey  int   `json:"totalKey"`
	TotalSize int64 `json:"totalSize"`
	// Version is the storage version, empty before 3.6.
	Version string `json:"version"`
}

// Status asks the tool what a snapshot file holds. It checks the structure of
// the database, not the digest.
func (t Tool) Status(ctx context.Context, file string) (Status, error) {
	out, err := t.run(ctx, "snapshot", "status", file, "--write-out=json")
	var s Status
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	if err != nil {
		return Status{}, fmt.Errorf("status of snapshot %s: %w", file, err)
	}
	return s, nil
}

// errNoBump is returned for a tool that cannot raise the revision.
var errNoBump = errors.New("it cannot raise the revision: that needs etcd 3.5.10 or later")
