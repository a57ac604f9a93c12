package etcdrelease

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// arch is the architecture in the names of archives and images.
const arch = runtime.GOARCH

// Options say which release to get, and from where.
type Options struct {
	// Version of etcd; it must be set. It may have the suffix of a distributor,
	// as in 3.5.8-eks-1-26-16, which the binaries do not print.
	Version etcdversion.Version
	// Sources of the binaries: the first that is set of Dir, Archive, Image and
	// ReleaseURL. If none is, the ReleaseURL of [machine.Defaults].
	Sources machine.Binaries
	// CacheDir keeps archives from ReleaseURL; by default that of
	// [machine.Defaults].
	CacheDir string
	// Etcdutl says that etcdutl is needed, so that a set without it is looked for in
	// the source again.
	Etcdutl bool
	// ConnectTimeout bounds the time from asking a server until its answer
	// begins: connecting, TLS and waiting. It is 10 s if it is 0.
	ConnectTimeout time.Duration
	// Digests are those of the archives that may be taken from ReleaseURL, as sha256sum prints
	// them: no other archive is, whatever anybody else says. "" leaves it to what this program
	// knows, and to what the source says. DigestsFrom names them in errors.
	Digests, DigestsFrom string
	// Progress receives how many bytes of a download are here, and how many there
	// are, -1 if that is unknown. It may be nil. Calls do not overlap, but may
	// come from another goroutine than the caller's.
	Progress func(doneBytes, totalBytes int64)
	// Fetching is called with the URL of an archive before anybody is asked for it, and Failed with
	// why a try failed that is followed by another, if it is another reason than that of the try
	// before. Both may be nil.
	Fetching, Failed func(text string)
	// Client asks the servers. If it is nil, proxies are those of the environment
	// (HTTP_PROXY, HTTPS_PROXY, NO_PROXY), and ReleaseURL may be a file URL.
	Client *http.Client

	// pace is for tests; 0 means the default.
	pace pace
	// pins are the digests that this program knows; for tests, "" means pins.txt.
	pins string
}

// A pace says how patient to be.
type pace struct {
	// tries is how often a request is sent that brings nothing.
	tries int
	// backoff is the pause after the first try. It doubles with each.
	backoff time.Duration
	// stall is how long a download may bring nothing before it counts as broken.
	stall time.Duration
	// lock is how long another process may take for the same work.
	lock time.Duration
}

var defaultPace = pace{tries: 4, backoff: 500 * time.Millisecond, stall: 30 * time.Second, lock: 15 * time.Minute}

// For returns the options that a machine's configuration asks for.
func For(c machine.Config) Options {
	return Options{
		Version:        c.Version,
		Sources:        c.Binaries,
		CacheDir:       c.Paths.Cache,
		ConnectTimeout: time.Duration(c.Timeouts.Connect),
	}
}

// complete returns the options with defaults in the place of what is not set,
// and refuses what cannot be.
func (o Options) complete() (Options, error) {
	defaults := machine.Defaults()
	if o.Version.IsZero() {
		return o, errors.New("the version of etcd is missing")
	}
	s := &o.Sources
	if s.ReleaseURL == "" {
		s.ReleaseURL = defaults.Binaries.ReleaseURL
	}
	s.SHA256 = strings.ToLower(strings.TrimPrefix(s.SHA256, "sha256:"))
	if s.SHA256 != "" && !isDigest(s.SHA256) {
		return o, &adviceError{
			text: fmt.Sprintf("checksum %q is not a SHA-256 digest", s.SHA256),
			next: "--binaries-sha256 takes 64 hexadecimal digits, as sha256sum prints them",
		}
	}
	if o.pins == "" {
		o.pins = pins
	}
	if o.CacheDir == "" {
		o.CacheDir = defaults.Paths.Cache
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = time.Duration(defaults.Timeouts.Connect)
	}
	if o.pace == (pace{}) {
		o.pace = defaultPace
	}
	return o, nil
}

// archiveName is the name of the project's own archives.
func (o Options) archiveName() string {
	return fmt.Sprintf("etcd-v%s-linux-%s.tar.gz", o.Version, arch)
}

// cachePath is where the archive is kept.
func (o Options) cachePath() string {
	return filepath.Join(o.CacheDir, "etcd", "v"+o.Version.String(), o.archiveName())
}

// A candidate is a place where the archive may be.
type candidate struct {
	url string
	// sums are places where its checksum may be.
	sums []string
}

// candidates returns where the archive may be on the web, in the order to try.
// EKS Distro calls it etcd-linux-amd64-v3.5.8.tar.gz, publishes the checksum
// in a file beside it, and its users give the full URL of the archive.
func (o Options) candidates() ([]candidate, error) {
	base, err := url.Parse(o.Sources.ReleaseURL)
	if err != nil || base.Scheme != "file" && base.Host == "" ||
		!strings.Contains(" http https file ", " "+base.Scheme+" ") {
		return nil, &adviceError{
			text: fmt.Sprintf("release URL %q is not an http, https or file URL", o.Sources.ReleaseURL),
			next: "--release-url takes the part before /v" + o.Version.String() +
				" in the URL of the archive, or the URL of a .tar.gz",
		}
	}
	if machine.PlainHTTP(o.Sources.ReleaseURL) && !o.Sources.AllowHTTP {
		return nil, &adviceError{
			text: fmt.Sprintf("release URL %q is plain http, over which anybody in between can answer",
				shown(o.Sources.ReleaseURL)),
			next: "use https, or --allow-http together with --binaries-sha256",
		}
	}
	at := func(u *url.URL, sums ...*url.URL) candidate {
		beside := *u
		beside.Path += ".sha256"
		c := candidate{url: u.String()}
		for _, s := range append(sums, &beside) {
			c.sums = append(c.sums, s.String())
		}
		return c
	}
	if strings.HasSuffix(base.Path, ".gz") {
		dir := *base
		dir.Path = path.Dir(base.Path)
		return []candidate{at(base, dir.JoinPath("SHA256SUMS"))}, nil
	}
	dir := base.JoinPath("v" + o.Version.String())
	sums := dir.JoinPath("SHA256SUMS")
	return []candidate{
		at(dir.JoinPath(o.archiveName()), sums),
		at(dir.JoinPath(fmt.Sprintf("etcd-linux-%s-v%s.tar.gz", arch, o.Version)), sums),
	}, nil
}

// isDigest reports whether s is a SHA-256 digest in lower case.
func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && s == strings.ToLower(s)
}
