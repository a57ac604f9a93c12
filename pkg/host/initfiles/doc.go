// Package initfiles writes the files that keep etcd running on a machine: the
// systemd unit with its environment file, the kubelet's static pod, and the
// files for running etcdctl by hand.
//
// Everything here is a function of values: the same options give the same
// text, byte for byte, so that whoever writes the files can compare before
// writing. What a value may not be in a file (a line break in a path, a quote
// in a user's name) is an error; nothing is escaped in a way that its reader
// would not undo.
package initfiles

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The modes of the files. etcd.env and etcdctl.env name keys, and may have
// further variables of the operator in them. Nobody but the kubelet and root
// reads the manifest.
const (
	EnvMode        uint32 = 0o600
	ControlEnvMode uint32 = 0o600
	ScriptMode     uint32 = 0o755
	UnitMode       uint32 = 0o644
	ManifestMode   uint32 = 0o600
)

// The names of the files, which others rely on: cloud-init scripts and tools
// of Cluster API providers read them, and the manifest's name without its end
// becomes the name of a static pod on Bottlerocket.
const (
	EnvName        = "etcd.env"
	ControlEnvName = "etcdctl.env"
	ScriptName     = "etcdctl.sh"
	UnitName       = "etcd.service"
	ManifestName   = "etcd.manifest"
)

// A File is a file as it is to be on the machine.
type File struct {
	Path string
	// Mode are the permission bits.
	Mode    uint32
	Content string
}

// header begins every file that people may come across.
const header = "# Written by etcdadm, which replaces the whole file.\n"

// checkText refuses what no file here can carry: text that is not UTF-8, and
// control characters. what names the value in the error.
func checkText(what, s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s %q is not UTF-8", what, s)
	}
	for _, r := range s {
		if unicode.IsControl(r) && r != '\t' || nonCharacter(r) {
			return fmt.Errorf("%s %q has the character %q", what, s, r)
		}
	}
	return nil
}

// nonCharacter reports whether r is one of the code points that Unicode keeps
// free, which systemd does not take (unichar_is_valid) and YAML neither.
func nonCharacter(r rune) bool { return r >= 0xfdd0 && r <= 0xfdef || r&0xfffe == 0xfffe }

// checkPath takes absolute paths without characters that mean something to
// systemd, to a glob or to a shell, other than blanks and percent signs, which
// can be escaped everywhere.
func checkPath(what, p string) error {
	if p == "" {
		return fmt.Errorf("%s is missing", what)
	}
	if err := checkText(what, p); err != nil {
		return err
	}
	if !path.IsAbs(p) {
		return fmt.Errorf("%s %q is not an absolute path", what, p)
	}
	if i := strings.IndexAny(p, "\t\"'\\`$*?[]{}~;|&<>#!"); i >= 0 {
		return fmt.Errorf("%s %q has the character %q", what, p, p[i])
	}
	return nil
}
