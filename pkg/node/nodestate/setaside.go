package nodestate

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// asideName is a file in a set-aside directory that holds the time at which it
// was set aside.
const asideName = ".set-aside"

// SetAside moves the data of an incarnation from data/ to data-trashcan/, where
// the existing etcd-manager puts it too, and records the time at. The name
// there is the token, with .1, .2 and so on added if it is taken. If there is
// no data of the incarnation to move, SetAside returns what was set aside of it
// last, or a zero value if nothing was, so that doing it again is harmless.
//
// A full disk does not stop it: then the time is when the directory was moved.
func SetAside(dir string, token cluster.Token, at time.Time) (cluster.SetAside, error) {
	s, err := setAside(dir, token, at)
	if err != nil {
		return s, fmt.Errorf("set aside the data of %s: %w", token, err)
	}
	return s, nil
}

func setAside(dir string, token cluster.Token, at time.Time) (cluster.SetAside, error) {
	if err := token.Validate(); err != nil {
		return cluster.SetAside{}, err
	}
	from := DataDir(dir, token)
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return lastAside(dir, token)
	}
	trash := filepath.Join(dir, trashName)
	if err := hostfs.MakeDir(trash, 0o700); err != nil {
		return cluster.SetAside{}, err
	}
	name, err := freeName(trash, string(token))
	if err != nil {
		return cluster.SetAside{}, err
	}
	// The time goes first, so that a directory is never there without it. It is
	// overwritten if we are cut off now and come again.
	err = hostfs.WriteFile(filepath.Join(from, asideName), []byte(at.UTC().Format(time.RFC3339Nano)+"\n"), 0o600)
	if err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return cluster.SetAside{}, err
	}
	if err := hostfs.Rename(from, filepath.Join(trash, name)); err != nil {
		return cluster.SetAside{}, err
	}
	return describe(trash, name)
}

// freeName returns the token, or the token with the lowest number that makes
// a name which is not taken in trash.
func freeName(trash, token string) (string, error) {
	name := token
	for n := 1; ; n++ {
		_, err := os.Lstat(filepath.Join(trash, name))
		if errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
		name = token + "." + strconv.Itoa(n)
	}
}

// lastAside returns the newest set-aside data of the incarnation.
func lastAside(dir string, token cluster.Token) (cluster.SetAside, error) {
	all, err := ListSetAside(dir)
	if err != nil {
		return cluster.SetAside{}, err
	}
	for _, s := range slices.Backward(all) {
		if mayBeOf(s.Name, string(token)) {
			return s, nil
		}
	}
	return cluster.SetAside{}, nil
}

// mayBeOf reports whether name is what freeName returns for token.
func mayBeOf(name, token string) bool {
	rest, ok := strings.CutPrefix(name, token)
	if !ok || rest == "" {
		return ok
	}
	n, err := strconv.Atoi(strings.TrimPrefix(rest, "."))
	return err == nil && n > 0 && rest == "."+strconv.Itoa(n)
}

// ListSetAside returns the data that was set aside on the node, oldest first.
// For data that the existing etcd-manager set aside, the time is when the
// directory was moved, as far as the file system knows.
func ListSetAside(dir string) ([]cluster.SetAside, error) {
	trash := filepath.Join(dir, trashName)
	entries, err := os.ReadDir(trash)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list set-aside data: %w", err)
	}
	var all []cluster.SetAside
	for _, e := range entries {
		if !e.IsDir() || e.Name() == lostFound {
			continue
		}
		s, err := describe(trash, e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // discarded in the meantime
		}
		if err != nil {
			return nil, fmt.Errorf("list set-aside data: %w", err)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b cluster.SetAside) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

func describe(trash, name string) (cluster.SetAside, error) {
	path := filepath.Join(trash, name)
	size, err := hostfs.DirSize(path)
	if err != nil {
		return cluster.SetAside{}, err
	}
	at, err := asideTime(path)
	return cluster.SetAside{Name: name, At: at, Bytes: size}, err
}

// asideTime returns the recorded time, or else the time of the last change of
// the directory's inode: a rename is one.
func asideTime(path string) (time.Time, error) {
	if b, err := os.ReadFile(filepath.Join(path, asideName)); err == nil {
		if at, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(b))); err == nil {
			return at, nil
		}
	}
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return time.Time{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return time.Unix(st.Ctim.Unix()).UTC(), nil
}

// An SetAsideError says that a directory was set aside at another time than
// expected: its name has been used again.
type SetAsideError struct {
	Name      string
	Want, Got time.Time
}

func (e *SetAsideError) Error() string {
	return fmt.Sprintf("%s was set aside at %s, not at %s", e.Name, e.Got.Format(time.RFC3339Nano),
		e.Want.Format(time.RFC3339Nano))
}

// Discard deletes one directory of data-trashcan/, which was set aside at the
// time at, and the key pairs of its incarnation if the node has no other data of
// it. A name that is gone already is no error; one that was set aside at another
// time is an [*SetAsideError].
func Discard(dir, name string, at time.Time) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("discard set-aside data: %q is not the name of one directory", name)
	}
	if err := discard(filepath.Join(dir, trashName), name, at); err != nil {
		return fmt.Errorf("discard set-aside data: %w", err)
	}
	if err := discardKeys(dir, name); err != nil {
		return fmt.Errorf("discard the key pairs of %s: %w", name, err)
	}
	return nil
}

func discard(trash, name string, at time.Time) error {
	path := filepath.Join(trash, name)
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	got, err := asideTime(path)
	if err != nil {
		return err
	}
	if !got.Equal(at) {
		return &SetAsideError{Name: name, Want: at, Got: got}
	}
	// The time goes last: after a crash in the middle, the rest is as old as
	// the whole was.
	if st.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.Name() == asideName {
				continue
			}
			if err := os.RemoveAll(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return hostfs.SyncDir(trash)
}

// discardKeys removes pki/<token> for each token that name may stand for, as
// long as the node has no data of that token left.
func discardKeys(dir, name string) error {
	left, err := ListSetAside(dir)
	if err != nil {
		return err
	}
	tokens := []string{name}
	if i := strings.LastIndexByte(name, '.'); i > 0 && mayBeOf(name, name[:i]) {
		tokens = append(tokens, name[:i])
	}
	for _, token := range tokens {
		if cluster.Token(token).Validate() != nil {
			continue // no directory of ours
		}
		if _, err := os.Lstat(DataDir(dir, cluster.Token(token))); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if slices.ContainsFunc(left, func(s cluster.SetAside) bool { return mayBeOf(s.Name, token) }) {
			continue
		}
		if err := os.RemoveAll(PKIDir(dir, cluster.Token(token))); err != nil {
			return err
		}
	}
	return nil
}
