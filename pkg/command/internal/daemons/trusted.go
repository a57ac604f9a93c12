package daemons

import (
	"os"
	"path/filepath"
	"syscall"
)

// Trusted reports whether nobody but root and the user of this process can have put a file
// or directory where it is: it and all directories above it belong to one of them, and
// others cannot write there, or only to what is theirs. A process may say anything of
// itself, and what is run because of it must not be everybody's.
func Trusted(path string) bool {
	if !filepath.IsAbs(path) {
		return false
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	for ; ; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil {
			return false
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok || owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
			return false
		}
		if info.Mode().Perm()&0o022 != 0 && info.Mode()&os.ModeSticky == 0 {
			return false
		}
		if path == filepath.Dir(path) {
			return true
		}
	}
}

// same reports whether a directory that the process in dir sees is one that this process
// sees under the same path.
func same(dir, path string) bool {
	its, err := os.Stat(filepath.Join(dir, "root", path))
	if err != nil {
		return false
	}
	here, err := os.Stat(path)
	return err == nil && os.SameFile(its, here)
}

// gained reports whether the program of the process in dir has gained the rights of its
// file's owner: its command line is then of somebody who does not have them.
func gained(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "exe"))
	return err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0
}
