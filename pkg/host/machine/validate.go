package machine

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/internal/spelling"
)

// A FieldError says what is wrong with a field of a [Config].
type FieldError struct {
	// Path is the field by its JSON names: "paths.data", "listen.clientURLs[0]",
	// "etcd.flags.snapshot-count".
	Path string
	// Text is what is wrong, as a sentence goes on after the path: "is not ...".
	Text string
}

func (e *FieldError) Error() string { return e.Path + " " + e.Text }

// FieldErrors are all that is wrong with a [Config], in the order of its
// fields.
type FieldErrors []*FieldError

func (e FieldErrors) Error() string {
	texts := make([]string, len(e))
	for i, one := range e {
		texts[i] = one.Error()
	}
	return strings.Join(texts, "; ")
}

// Validate returns a [FieldErrors] if a field has a value that cannot be meant.
// Fields that are not set are fine: they have defaults. It does not check the
// machine, nor whether the version of etcd knows the flags: [Config.CheckFlags]
// does.
func (c Config) Validate() error {
	var k checker
	k.member(c)
	k.listen(c.Listen)
	k.paths(c.Paths)
	k.certificates(c.Certificates)
	k.binaries(c.Binaries)
	k.service(c.Service)
	k.etcd(c.Etcd)
	k.text("snapshot.file", c.Snapshot.File)
	if c.Snapshot.BumpRevision < 0 {
		k.wrong("snapshot.bumpRevision", "is %d, but revisions never go back", c.Snapshot.BumpRevision)
	}
	k.timeouts(c.Timeouts)
	return k.err()
}

// CheckFlags returns a [FieldErrors] if etcd of the configuration's version
// does not take the settings below etcd. Without a version it is
// [DefaultVersion]. The versions whose flags are known are those of
// [etcdconf.FlagsKnown].
func (c Config) CheckFlags() error {
	v := c.Version
	if v.IsZero() {
		v = DefaultVersion
	}
	var k checker
	var wrong etcdconf.FlagErrors
	if errors.As(etcdconf.CheckFlags(v, c.Etcd.Flags), &wrong) {
		for _, e := range wrong {
			text := e.Reason
			if e.Instead != "" {
				text += ", use " + e.Instead
			}
			k.wrong("etcd.flags."+e.Flag, "%s", text)
		}
	}
	return k.err()
}

type checker struct{ found FieldErrors }

func (k *checker) err() error {
	if len(k.found) == 0 {
		return nil
	}
	return k.found
}

func (k *checker) wrong(path, format string, args ...any) {
	k.found = append(k.found, &FieldError{Path: path, Text: fmt.Sprintf(format, args...)})
}

// inner is an error without what another package says that it was doing.
func inner(err error) error {
	if e := errors.Unwrap(err); e != nil {
		return e
	}
	return err
}

// each checks the elements of a list.
func each[T any](path string, list []T, check func(path string, one T)) {
	for i, one := range list {
		check(fmt.Sprintf("%s[%d]", path, i), one)
	}
}

func (k *checker) member(c Config) {
	if c.Name != "" {
		if err := c.Name.Validate(); err != nil {
			k.wrong("name", "is wrong: %v", err)
		}
	}
	if !c.Version.IsZero() && !c.Version.Managed() {
		k.wrong("version", "is %s, but etcdadm supports etcd 3, from 3.4 on; choose one such as %s", c.Version, DefaultVersion)
	}
}

func (k *checker) listen(l Listen) {
	if l.Address != "" {
		a, err := netip.ParseAddr(l.Address)
		switch {
		case err != nil:
			k.wrong("listen.address", "is %q, not an IP address such as 10.0.0.1 or fd00::1", l.Address)
		case a.Zone() != "":
			k.wrong("listen.address", "is %q, which is valid on one interface only", l.Address)
		case a.IsMulticast():
			k.wrong("listen.address", "is %q, which is not the address of one machine", l.Address)
		}
	}
	k.port("listen.clientPort", l.ClientPort)
	k.port("listen.peerPort", l.PeerPort)
	if l.ClientPort != 0 && l.ClientPort == l.PeerPort {
		k.wrong("listen.peerPort", "is %d, the same as the client port", l.PeerPort)
	}
	each("listen.clientURLs", l.ClientURLs, k.secureURL)
	each("listen.peerURLs", l.PeerURLs, k.secureURL)
	each("listen.metricsURLs", l.MetricsURLs, k.listenURL)
}

func (k *checker) port(path string, port int) {
	if port < 0 || port > 65535 {
		k.wrong(path, "is %d, but ports are from 1 to 65535", port)
	}
}

func (k *checker) listenURL(path, u string) {
	if err := etcdconf.CheckListenURL(u); err != nil {
		k.wrong(path, "is wrong: %v", err)
	}
}

// secureURL refuses plain text: members and clients are known by their
// certificates.
func (k *checker) secureURL(path, u string) {
	if strings.HasPrefix(u, "http://") {
		k.wrong(path, "is %q, but must begin with https://", u)
		return
	}
	k.listenURL(path, u)
}

func (k *checker) paths(p Paths) {
	v := reflect.ValueOf(p)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		path, dir := "paths."+name, v.Field(i).String()
		switch {
		case dir == "" || !k.text(path, dir):
		case name != "manifests" && !filepath.IsAbs(dir):
			k.wrong(path, "is %q, not an absolute path", dir)
		case filepath.Clean(dir) == "/":
			k.wrong(path, "is %q, which is also used for something else", dir)
		}
	}
	if p.Data != "" && p.Certificates != "" && filepath.Clean(p.Data) == filepath.Clean(p.Certificates) {
		k.wrong("paths.certificates", "is %q, the same as the data directory, which reset removes", p.Certificates)
	}
}

// text refuses what no path, name or reference has, and what would break out of
// its line in a file.
func (k *checker) text(path, s string) bool {
	switch {
	case strings.ContainsFunc(s, unicode.IsControl):
		k.wrong(path, "is %q, which has control characters", s)
	case strings.ToValidUTF8(s, "") != s:
		k.wrong(path, "is %q, which is not UTF-8", s)
	default:
		return true
	}
	return false
}

func (k *checker) certificates(c Certificates) {
	each("certificates.serverSANs", c.ServerSANs, k.san)
	each("certificates.peerSANs", c.PeerSANs, k.san)
	if c.KeyAlgorithm != "" && c.KeyAlgorithm != ECDSA && c.KeyAlgorithm != RSA {
		k.wrong("certificates.keyAlgorithm", "is %q, but must be %s or %s", string(c.KeyAlgorithm), ECDSA, RSA)
	}
	k.positive("certificates.lifetime", c.Lifetime)
	k.positive("certificates.caLifetime", c.CALifetime)
	if c.Lifetime > 0 && c.CALifetime > 0 && c.Lifetime > c.CALifetime {
		k.wrong("certificates.lifetime", "is %s, longer than that of the certificate authority (%s)", c.Lifetime,
			c.CALifetime)
	}
}

// label is one word of a host name, wildcards and the underscore included:
// names of machines that are not host names by the letter are names in
// certificates.
var label = regexp.MustCompile(`^(\*|[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)$`)

func (k *checker) san(path, name string) {
	if _, err := netip.ParseAddr(name); err == nil && !strings.Contains(name, "%") {
		return
	}
	ok := name != "" && len(name) <= 253
	for i, word := range strings.Split(strings.TrimSuffix(name, "."), ".") {
		ok = ok && label.MatchString(word) && (i == 0 || word != "*")
	}
	if !ok {
		k.wrong(path, "is %q, neither a host name nor an IP address", name)
	}
}

func (k *checker) positive(path string, d Duration) {
	if d < 0 {
		k.wrong(path, "is %s, but must be positive", d)
	}
}

var digest = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

func (k *checker) binaries(b Binaries) {
	k.text("binaries.dir", b.Dir)
	k.text("binaries.archive", b.Archive)
	if k.text("binaries.image", b.Image) && strings.Contains(b.Image, " ") {
		k.wrong("binaries.image", "is %q, which contains a space", b.Image)
	}
	if b.ReleaseURL != "" {
		u, err := url.Parse(b.ReleaseURL)
		local := err == nil && u.Scheme == "file" && u.Path != ""
		if err != nil || !local && (u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			k.wrong("binaries.releaseURL", "is %q, not of the form https://host/path", b.ReleaseURL)
		}
	}
	if b.SHA256 != "" && !digest.MatchString(b.SHA256) {
		k.wrong("binaries.sha256", "is %q, not 64 hexadecimal digits", b.SHA256)
	}
	if PlainHTTP(b.ReleaseURL) && !b.AllowHTTP {
		k.wrong("binaries.releaseURL",
			"is plain http, over which anybody in between can answer: use https, or allow http (--allow-http) and give the "+
				"archive's digest (--binaries-sha256)")
	}
	if b.SHA256 != "" && b.SkipChecksum {
		k.wrong("binaries.skipChecksum", "is set, and so is the checksum to compare with")
	}
}

func (k *checker) service(s Service) {
	if s.InitSystem != "" && !slices.Contains([]InitSystem{Systemd, Kubelet, Process}, s.InitSystem) {
		k.wrong("service.initSystem", "is %q, but must be %s, %s or %s", string(s.InitSystem), Systemd, Kubelet, Process)
	}
	account := func(path string, o initfiles.UnitOptions) {
		o.Etcd, o.EnvFile, o.DataDir = "/etcd", "/env", "/data"
		if _, err := initfiles.Unit(o); err != nil {
			k.wrong(path, "is wrong: %v", inner(err))
		}
	}
	account("service.user", initfiles.UnitOptions{User: s.User})
	account("service.group", initfiles.UnitOptions{Group: s.Group})
	each("service.priorities", s.Priorities, func(path, line string) {
		if err := initfiles.CheckPriority(line); err != nil && strings.TrimSpace(line) != "" {
			k.wrong(path, "is wrong: %v", err)
		}
	})
	pod := initfiles.PodOptions{Repository: "etcd", Version: DefaultVersion, CertsDir: "/certs", DataDir: "/data"}
	try := func(path string, edit func(*initfiles.PodOptions)) {
		o := pod
		edit(&o)
		if _, err := initfiles.Manifest(o); err != nil {
			k.wrong(path, "is wrong: %v", inner(err))
		}
	}
	if s.ImageRepository != "" {
		try("service.imageRepository", func(o *initfiles.PodOptions) { o.Repository = s.ImageRepository })
	}
	try("service.cpu", func(o *initfiles.PodOptions) { o.CPU = s.CPU })
	try("service.memory", func(o *initfiles.PodOptions) { o.Memory = s.Memory })
}

func (k *checker) etcd(e Etcd) {
	var names []string
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		names = append(names, s.Name)
	}
	each("etcd.cipherSuites", e.CipherSuites, func(path, name string) {
		if slices.Contains(names, name) {
			return
		}
		text := fmt.Sprintf("is %q, which is not a cipher suite that etcd knows", name)
		if near := spelling.Nearest(name, names); near != "" {
			text += ", did you mean " + near + "?"
		}
		k.wrong(path, "%s", text)
	})
	if e.QuotaBytes < 0 {
		k.wrong("etcd.quotaBytes", "is %d, but must be positive", e.QuotaBytes)
	}
	for _, own := range []struct {
		flag, field string
		set         bool
	}{{"quota-backend-bytes", "etcd.quotaBytes", e.QuotaBytes != 0}, {
		"cipher-suites", "etcd.cipherSuites", len(e.CipherSuites) > 0,
	}} {
		if _, both := e.Flags[own.flag]; both && own.set {
			k.wrong("etcd.flags."+own.flag, "is set, and so is %s, which sets the same", own.field)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Flags)) {
		k.text("etcd.flags."+name, e.Flags[name])
	}
	k.environment(e)
}

func (k *checker) environment(e Etcd) {
	flags := etcdconf.FlagsEnv(e.Flags)
	for _, name := range slices.Sorted(maps.Keys(e.Environment)) {
		path := "etcd.environment." + name
		if _, err := initfiles.EnvFile([]string{name + "=" + e.Environment[name]}); err != nil {
			k.wrong(path, "is wrong: %v", inner(err))
			continue
		}
		if len(etcdconf.Ignored(etcdconf.Member{User: map[string]string{name: ""}})) > 0 {
			k.wrong(path, "is part of the member's identity, and is set by etcdadm")
		}
		if _, both := flags[name]; both {
			k.wrong(path, "is set, and so is the flag in etcd.flags, which sets the same")
		}
	}
}

func (k *checker) timeouts(t Timeouts) {
	k.positive("timeouts.connect", t.Connect)
	k.positive("timeouts.start", t.Start)
	k.positive("timeouts.membership", t.Membership)
	k.positive("timeouts.promotion", t.Promotion)
	k.positive("timeouts.orphan", t.Orphan)
}
