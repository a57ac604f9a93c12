package etcdrelease

import (
	_ "embed" // pins.txt
	"fmt"
	"net/url"
	"strings"
)

// pins are the digests of official releases that this program knows. What a source says of
// its own archives proves only that nothing was lost on the way.
//
//go:embed pins.txt
var pins string

// pinsName is who says a digest of pins, in errors.
const pinsName = "this program's list of etcd's own releases (pins.txt)"

// pinned returns the digest that the archive at a URL must have, "" where it is not known.
// What is below a release URL must be etcd's own archive, whatever its name: the source
// chooses that. An operator who gives the URL of one archive chooses it, and where the name
// is not that of etcd's, the maker may be another one, too.
func (o Options) pinned(at string) string {
	if u, err := url.Parse(o.Sources.ReleaseURL); err == nil && strings.HasSuffix(u.Path, ".gz") &&
		urlBase(at) != o.archiveName() {
		return ""
	}
	return digestIn(o.pins, o.archiveName(), false)
}

// CheckDigests reports what in text is not of the form that sha256sum prints: lines with a
// digest and a name, notes that begin with #, and empty lines. There must be a digest.
func CheckDigests(text string) error {
	some := false
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if words := strings.Fields(line); len(words) != 2 || !isDigest(strings.ToLower(words[0])) {
			return fmt.Errorf("line %d is not a SHA-256 digest and the name of an archive, as sha256sum prints them", n+1)
		}
		some = true
	}
	if !some {
		return fmt.Errorf("there is no digest in it")
	}
	return nil
}
