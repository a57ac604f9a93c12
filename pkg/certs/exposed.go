package certs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Exposed says of each authority's key in dir which others than its owner can
// use it, and of the directory itself. What is not there is not named. Whoever
// has such a key can be every node, every person, or every client of etcd.
func Exposed(dir string) []string {
	var list []string
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
		list = append(list, fmt.Sprintf("everybody on this machine can replace the authorities in %s (mode %04o)", dir,
			info.Mode().Perm()))
	}
	for _, name := range []string{ManagerCA, PeersCA, ClientsCA} {
		file := pairFile(dir, name, ".key")
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if why := keyAccess(file, nil); why != "" {
			list = append(list, why)
		}
	}
	return list
}
