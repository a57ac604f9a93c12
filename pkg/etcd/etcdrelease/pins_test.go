package etcdrelease

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path"
	"strings"
	"testing"
)

// A digest that the program knows counts more than that of the source, and the operator's
// more than either.
func TestAPinnedDigestCounts(t *testing.T) {
	s := newSite(t, version)
	content := s.get(where)
	sum := sha256.Sum256(content)
	right, wrong := hex.EncodeToString(sum[:]), strings.Repeat("0", 64)
	pin := func(digest string) string { return "# a note\n" + digest + "  " + path.Base(where) + "\n" }

	bad := s.from(t, version)
	bad.pins = pin(wrong)
	_, _, err := Download(soon(t), bad)
	var mismatch *ChecksumError
	if !errors.As(err, &mismatch) || mismatch.Want != wrong || !strings.Contains(err.Error(), "pins.txt") {
		t.Errorf("an archive of another digest gives %v", err)
	}
	bad.Sources.SHA256 = right
	mustDownload(t, bad, content)

	good := s.from(t, version)
	good.pins = pin(right)
	mustDownload(t, good, content)
	// Also what is in the cache is compared with it.
	good.pins = pin(wrong)
	if _, ok := Cached(good); ok {
		t.Error("an archive of another digest in the cache counts")
	}
}

// Each line of pins.txt is a digest of a release, or a note.
func TestPinsAreOfReleases(t *testing.T) {
	for line := range strings.Lines(pins) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if len(words) != 2 || !isDigest(words[0]) || !strings.HasPrefix(words[1], "etcd-v") ||
			!strings.HasSuffix(words[1], ".tar.gz") {
			t.Errorf("%q is neither", line)
		}
	}
}
