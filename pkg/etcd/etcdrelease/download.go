package etcdrelease

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// Cached returns where the cache keeps the archive, and whether one is there
// that may be used: of the digest in Sources.SHA256, or the one recorded beside
// it, if there is either. It reads the archive, and asks nobody.
func Cached(o Options) (path string, ok bool) {
	o, err := o.complete()
	if err != nil {
		return o.cachePath(), false
	}
	_, err = o.compare(o.cachePath())
	return o.cachePath(), err == nil
}

// Download puts the archive of ReleaseURL into the cache, whatever the other
// sources are, and returns its path. fetched is false if a good one was there:
// one of the right digest, or where no digest is known, a whole one that has
// etcd in it.
//
// Errors that a caller may distinguish: [*NotFoundError], [*ChecksumError],
// [*NoChecksumError], [*SpaceError].
func Download(ctx context.Context, o Options) (path string, fetched bool, err error) {
	path, fetched, err = download(ctx, o)
	if err != nil {
		return "", false, fmt.Errorf("download etcd %s: %w", o.Version, err)
	}
	return path, fetched, nil
}

func download(ctx context.Context, o Options) (string, bool, error) {
	o, err := o.complete()
	if err != nil {
		return "", false, err
	}
	known, why := o.compare(o.cachePath())
	if why == nil && !known {
		why = unpackArchive(ctx, o.cachePath(), "")
	}
	if why == nil {
		return o.cachePath(), false, nil
	}
	if ctx.Err() != nil {
		return "", false, why
	}
	return o.fetch(ctx, o.cachePath(), why)
}

// fetch puts the archive into the cache, where it is not usable for the reason
// why. If another process is at it, fetch waits and takes its archive.
func (o Options) fetch(ctx context.Context, archive string, why error) (string, bool, error) {
	bad, _ := os.Stat(archive) // nil if there is none
	fail := func(err error) (string, bool, error) {
		if bad != nil {
			err = fmt.Errorf("%w (needed because the archive in the cache is not usable: %w)", err, why)
		}
		return "", false, err
	}
	dir := filepath.Dir(archive)
	if err := hostfs.MakeDir(dir, 0o755); err != nil {
		return fail(onDisk(err, o.CacheDir))
	}
	unlock, err := lockDir(ctx, dir, o.pace.lock)
	if err != nil {
		return fail(err)
	}
	defer unlock()
	if st, err := os.Stat(archive); err == nil && (bad == nil || !os.SameFile(st, bad)) {
		if known, err := o.compare(archive); err == nil && known {
			return archive, false, nil
		}
	}
	// A killed process may have left one.
	if err := hostfs.RemoveTemp(archive + ".sha256"); err != nil {
		return fail(err)
	}
	w := o.open()
	defer w.close()
	digest, err := o.find(ctx, w, archive+".part")
	if err != nil {
		err = onDisk(err, dir)
		if _, full := errors.AsType[*SpaceError](err); full {
			// Half an archive must not keep the disk full.
			err = errors.Join(err, forget(archive+".part"))
		}
		return fail(err)
	}
	if err := keep(archive, digest); err != nil {
		return fail(onDisk(err, dir))
	}
	return archive, true, nil
}

// keep gives the finished part its name. The digest is recorded first: an
// archive without one would be taken for somebody else's.
func keep(archive, digest string) error {
	line := digest + "  " + filepath.Base(archive) + "\n"
	if err := hostfs.WriteFile(archive+".sha256", []byte(line), 0o644); err != nil {
		return err
	}
	crashpoint.Hit("download.before-rename")
	if err := hostfs.Rename(archive+".part", archive); err != nil {
		return err
	}
	return forget(archive + ".part")
}

// forget removes a part and what is known about it.
func forget(part string) error {
	err := errors.Join(os.Remove(part+".from"), os.Remove(part))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// find fetches the archive into part from the first candidate that has it, and
// returns its digest.
func (o Options) find(ctx context.Context, w *web, part string) (digest string, err error) {
	places, err := o.candidates()
	if err != nil {
		return "", err
	}
	none := &NotFoundError{Version: o.Version}
	sums := map[string]string{}
	for _, c := range places {
		if o.Fetching != nil {
			o.Fetching(shown(c.url))
		}
		want, from, err := o.published(ctx, w, c, sums)
		if err != nil {
			return "", err
		}
		if want == "" && !o.Sources.SkipChecksum {
			err = w.exists(ctx, c.url)
			if err == nil {
				return "", o.noChecksum(c)
			}
		} else {
			digest, err = o.transfer(ctx, w, job{url: c.url, part: part, want: want, from: from})
		}
		var status *statusError
		if err == nil || !errors.As(err, &status) || !status.missing() {
			return digest, err
		}
		none.Answers = append(none.Answers, err.Error())
	}
	return "", none
}

// noChecksum is the error where nothing says what a candidate should be.
func (o Options) noChecksum(c candidate) error {
	if o.Digests != "" {
		return &NoChecksumError{URL: shown(c.url), Observed: []string{o.DigestsFrom}, Digests: true}
	}
	return &NoChecksumError{URL: shown(c.url), Observed: shownAll(c.sums), Plain: machine.PlainHTTP(c.url)}
}

// published returns the digest that an archive should have, and who says so;
// "" if nobody does. sums remembers the files that were read.
func (o Options) published(ctx context.Context, w *web, c candidate, sums map[string]string) (
	want, from string, err error) {
	if o.Sources.SHA256 != "" {
		return o.Sources.SHA256, "--binaries-sha256", nil
	}
	if o.Digests != "" {
		return digestIn(o.Digests, urlBase(c.url), false), o.DigestsFrom, nil
	}
	if want := o.pinned(c.url); want != "" {
		return want, pinsName, nil
	}
	if machine.PlainHTTP(c.url) {
		return "", "", nil // who alters the archive on its way alters its checksum too
	}
	for _, s := range c.sums {
		text, ok := sums[s]
		if !ok {
			if text, err = w.text(ctx, s); err != nil {
				return "", "", fmt.Errorf("look for the checksum: %w", err)
			}
			sums[s] = text
		}
		if want := digestIn(text, urlBase(c.url), strings.HasSuffix(s, ".sha256")); want != "" {
			return want, shown(s), nil
		}
	}
	return "", "", nil
}

// compare compares the file at archive with the digest that it should have. It
// returns whether there is such a digest; the error is fs.ErrNotExist if there
// is no archive. What lies on this machine is the operator's, who may have put
// the build of another maker there: it need not be etcd's own.
func (o Options) compare(archive string) (known bool, err error) {
	if st, err := os.Stat(archive); err != nil {
		return false, err
	} else if !st.Mode().IsRegular() {
		return false, fmt.Errorf("%s is not a file", archive)
	}
	want, from := o.Sources.SHA256, "--binaries-sha256"
	if want == "" {
		want, from = digestIn(o.Digests, filepath.Base(archive), false), o.DigestsFrom
	}
	if want == "" {
		from = archive + ".sha256"
		b, err := os.ReadFile(from)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return true, err
		}
		if want = digestIn(string(b), filepath.Base(archive), true); want == "" {
			return true, fmt.Errorf("%s has no checksum of %s", from, filepath.Base(archive))
		}
	}
	got, err := Digest(archive)
	if err != nil {
		return true, err
	}
	if got != want {
		return true, &ChecksumError{What: archive, From: from, Want: want, Got: got}
	}
	return true, nil
}

// digestIn returns the digest of the file name in text of the form that
// sha256sum prints, "" if there is none. If the text is for one file only, a
// single digest in it is that file's, whatever name stands there, if any.
func digestIn(text, name string, single bool) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) == 0 || !isDigest(strings.ToLower(words[0])) {
			continue
		}
		named := len(words) == 2 && path.Base(strings.TrimPrefix(words[1], "*")) == name
		if named || single && len(lines) == 1 {
			return strings.ToLower(words[0])
		}
	}
	return ""
}

// Digest returns the SHA-256 digest of a file in hexadecimal.
func Digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// shown returns a URL as it may be printed: without its password and query,
// which may be a signature.
func shown(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "the URL"
	}
	u.RawQuery = ""
	return u.Redacted()
}

func shownAll(urls []string) []string {
	var all []string
	for _, u := range urls {
		all = append(all, shown(u))
	}
	return all
}

// urlBase returns the file name in a URL.
func urlBase(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	return path.Base(u.Path)
}
