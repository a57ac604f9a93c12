package etcdrelease

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// line is what a list of digests says of the archive that etcd would publish.
func line(digest string) string { return "# a note\n" + digest + "  " + path.Base(where) + "\n" }

// A digest that the program knows counts more than that of the source, and the operator's
// more than either.
func TestAPinnedDigestCounts(t *testing.T) {
	s := newSite(t, version)
	content := s.get(where)
	right, wrong := digest(content), strings.Repeat("0", 64)

	bad := s.from(t, version)
	bad.pins = line(wrong)
	_, _, err := Download(soon(t), bad)
	var mismatch *ChecksumError
	if !errors.As(err, &mismatch) || mismatch.Want != wrong || mismatch.Got != right {
		t.Errorf("an archive of another digest gives %v", err)
	}
	wantError(t, err, "pins.txt")
	wantHint(t, err, "do not use it", "--binaries-sha256", "--etcd-release-digests")
	if _, err := os.Stat(bad.cachePath()); err == nil {
		t.Error("it is in the cache")
	}
	bad.Sources.SHA256 = right
	mustDownload(t, bad, content)

	good := s.from(t, version)
	good.pins = line(right)
	s.put("/v"+version+"/SHA256SUMS", nil)
	mustDownload(t, good, content)
	// What lies on this machine is the operator's.
	good.pins = line(wrong)
	if _, ok := Cached(good); !ok {
		t.Error("an archive in the cache is compared with what etcd published")
	}
}

// A source that has not etcd's own archive cannot bring another one under another name. An
// operator who names one archive can.
func TestOtherNamesOfAPinnedRelease(t *testing.T) {
	s := newSite(t)
	content := release(t, version)
	other := "/v" + version + "/etcd-linux-" + arch + "-v" + version + ".tar.gz"
	s.put(other, content)
	s.put(other+".sha256", []byte(digest(content)))
	o := s.from(t, version)
	o.pins = line(strings.Repeat("0", 64))
	wantError(t, third(Download(soon(t), o)), "pins.txt", path.Base(other))

	named := s.from(t, version)
	named.pins = o.pins
	named.Sources.ReleaseURL += other
	mustDownload(t, named, content)
	// The name of etcd's own archive is that of etcd's own archive.
	s.publish(version, content)
	own := s.from(t, version)
	own.pins = o.pins
	own.Sources.ReleaseURL += where
	wantError(t, third(Download(soon(t), own)), "pins.txt", path.Base(where))
}

// A version of a distributor is not one of etcd's own.
func TestAVersionOfADistributorIsNotPinned(t *testing.T) {
	const theirs = version + "-own.1"
	s := newSite(t, theirs)
	o := s.from(t, theirs)
	o.pins = line(strings.Repeat("0", 64))
	mustDownload(t, o, release(t, theirs))
}

// Where the operator has a list of digests, nothing else is taken, whoever says so.
func TestDigestsOfTheOperator(t *testing.T) {
	s := newSite(t, version)
	content := s.get(where)
	right, wrong := digest(content), strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		digests, pins string
		words         []string
	}{
		"the one":              {line(right), "# none", nil},
		"more than the pinned": {line(right), line(wrong), nil},
		"another":              {line(wrong), line(right), []string{"own.txt says " + wrong}},
		"none of it": {strings.ReplaceAll(line(right), version, "3.6.15"), line(right),
			[]string{"none in own.txt"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := s.from(t, version)
			o.pins, o.Digests, o.DigestsFrom = c.pins, c.digests, "own.txt"
			if c.words == nil {
				mustDownload(t, o, content)
				return
			}
			wantError(t, third(Download(soon(t), o)), c.words...)
			seed(t, o, content)
			if _, ok := Cached(o); name == "another" && ok {
				t.Error("one in the cache counts")
			}
		})
	}
	o := s.from(t, version)
	o.Digests, o.DigestsFrom = strings.ReplaceAll(line(right), version, "3.6.15"), "own.txt"
	wantHint(t, third(Download(soon(t), o)), "add its digest to own.txt")
}

func TestCheckDigests(t *testing.T) {
	good := strings.Repeat("a1", 32)
	for text, want := range map[string]string{
		good + "  etcd-v3.6.16-linux-amd64.tar.gz\n":                                     "",
		"# a note\n\n" + strings.ToUpper(good) + " *etcd-v3.6.16-linux-amd64.tar.gz\r\n": "",
		"":                         "no digest",
		"# " + good + "  x\n":      "no digest",
		good + "\n":                "line 1",
		"\n" + good[1:] + "  etcd": "line 2",
	} {
		err := CheckDigests(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Each line of pins.txt is a digest of one release for one architecture, or a note. None
// occurs twice: that would be a slip in copying.
func TestPinsAreOfReleases(t *testing.T) {
	if err := CheckDigests(pins); err != nil {
		t.Fatal(err)
	}
	names, digests := map[string]bool{}, map[string]bool{}
	var last etcdversion.Version
	for text := range strings.Lines(pins) {
		words := strings.Fields(text)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		sum, name := words[0], words[1]
		version, platform, _ := strings.Cut(strings.TrimPrefix(name, "etcd-v"), "-linux-")
		v, err := etcdversion.Parse(version)
		if err != nil || v.Pre != "" || !v.Managed() || name != "etcd-v"+v.String()+"-linux-"+platform {
			t.Errorf("%q is not of a release: %v", name, err)
		}
		switch platform {
		case "amd64.tar.gz", "arm64.tar.gz", "ppc64le.tar.gz", "s390x.tar.gz":
		default:
			t.Errorf("%q is for no architecture that etcd publishes", name)
		}
		if !isDigest(sum) {
			t.Errorf("%s has the digest %q", name, sum)
		}
		if names[name] || digests[sum] {
			t.Errorf("%s, or its digest, is there twice", name)
		}
		names[name], digests[sum] = true, true
		if v.Compare(last) < 0 {
			t.Errorf("%s is behind a later version", name)
		}
		last = v
	}
}

// The list is what counts where nobody sets another one.
func TestPinsCountByThemselves(t *testing.T) {
	const known = "3.5.12" // for most architectures
	s := newSite(t, known)
	o := s.from(t, known)
	o.pins = ""
	wantError(t, third(Download(soon(t), o)), "pins.txt")
	if left, _ := filepath.Glob(filepath.Join(o.CacheDir, "etcd", "*", "*.gz")); len(left) > 0 {
		t.Errorf("the cache has %q", left)
	}
}
