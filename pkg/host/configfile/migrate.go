package configfile

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/bytesize"
)

// A Source is a file on the machine and what is in it.
type Source struct{ Path, Text string }

// Written are the files from which an etcd on a machine is run, as the retired
// etcdadm or this one wrote them. The environment file or the manifest must be
// there; what is not has no path.
type Written struct {
	Env, Unit, Manifest Source
	// SANs, if not nil, returns the names in the certificate of a pair in a
	// directory, none where there is no certificate.
	SANs func(dir, pair string) []string
}

// Migrate returns the configuration that says what the files say, and notes for
// a person: what has no place in a configuration, and what is to be decided.
// What no file decides stays unset: among it the version of etcd where systemd
// runs it. A caller that does not set it has etcd changed to the default one.
func Migrate(w Written) (machine.Config, []string, error) {
	m := &migration{}
	vars := map[string]string{}
	var err error
	switch {
	case w.Manifest.Path != "":
		vars, err = m.manifest(w.Manifest)
	case w.Env.Path != "":
		if vars, err = initfiles.ParseEnvFile(w.Env.Text); err != nil {
			err = fmt.Errorf("%s: %w", w.Env.Path, err)
		}
		m.c.Paths.Environment = path.Dir(w.Env.Path)
	default:
		err = fmt.Errorf("migrate: there is neither an environment file nor a manifest")
	}
	if err == nil && vars["ETCD_NAME"] == "" {
		err = fmt.Errorf("migrate %s%s: it does not set ETCD_NAME, so it is not etcd's", w.Manifest.Path, w.Env.Path)
	}
	if err != nil {
		return machine.Config{}, nil, err
	}
	if w.Unit.Path != "" && w.Manifest.Path == "" {
		m.unit(w.Unit)
	}
	m.environment(vars)
	m.sans(w.SANs)
	return m.c, m.notes, nil
}

type migration struct {
	c     machine.Config
	notes []string
}

func (m *migration) note(format string, args ...any) {
	m.notes = append(m.notes, fmt.Sprintf(format, args...))
}

// computed are the variables that follow from the rest of a configuration, with
// the value that they then have; "" is for any.
var computed = map[string]string{
	"ETCD_INITIAL_CLUSTER":                    "",
	"ETCD_INITIAL_CLUSTER_TOKEN":              "",
	"ETCD_INITIAL_CLUSTER_STATE":              "",
	"ETCD_STRICT_RECONFIG_CHECK":              "true",
	"ETCD_CLIENT_CERT_AUTH":                   "true",
	"ETCD_PEER_CLIENT_CERT_AUTH":              "true",
	"ETCD_LOGGER":                             "zap",
	"ETCD_LOG_OUTPUTS":                        "stdout",
	"ETCD_FEATURE_GATES":                      "InitialCorruptCheck=true",
	"ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK": "true",
}

// environment takes over what etcd is given.
func (m *migration) environment(vars map[string]string) {
	vars = maps.Clone(vars)
	take := func(key string) string {
		v := vars[key]
		delete(vars, key)
		return v
	}
	m.c.Name = cluster.NodeName(take("ETCD_NAME"))
	m.c.Paths.Data = take("ETCD_DATA_DIR")
	m.listen(take)
	m.certificates(take)
	m.c.Etcd.CipherSuites = list(take("ETCD_CIPHER_SUITES"))
	if q := take("ETCD_QUOTA_BACKEND_BYTES"); q != "" {
		n, err := bytesize.Parse(q)
		if err != nil {
			m.note("ETCD_QUOTA_BACKEND_BYTES: %v", err)
		}
		m.c.Etcd.QuotaBytes = n
	}
	if take("GOMAXPROCS") != "" {
		m.note("GOMAXPROCS is left out: Go uses all processors by default")
	}
	if v := take("ETCD_ENABLE_V2"); v == "true" {
		m.note("ETCD_ENABLE_V2 is left out: etcd has no v2 API from 3.6 on; for an earlier one set etcd.flags.enable-v2")
	}
	for _, key := range slices.Sorted(maps.Keys(vars)) {
		value := vars[key]
		if usual, known := computed[key]; value == "" || known && (usual == "" || usual == value) {
			continue
		}
		m.other(key, value)
	}
}

// other takes over a variable that no field is for: as a flag of etcd where it
// is one.
func (m *migration) other(key, value string) {
	into, name := &m.c.Etcd.Environment, key
	if rest, ok := strings.CutPrefix(key, "ETCD_"); ok {
		flag := strings.ToLower(strings.ReplaceAll(rest, "_", "-"))
		if len(etcdconf.Ignored(etcdconf.Member{User: map[string]string{key: value}})) > 0 {
			m.note("%s is left out: it is part of the member's identity", key)
			return
		}
		into, name = &m.c.Etcd.Flags, flag
	}
	if *into == nil {
		*into = map[string]string{}
	}
	(*into)[name] = value
}

func (m *migration) listen(take func(string) string) {
	l := &m.c.Listen
	peer, client := list(take("ETCD_INITIAL_ADVERTISE_PEER_URLS")), list(take("ETCD_ADVERTISE_CLIENT_URLS"))
	host, port := m.only("ETCD_INITIAL_ADVERTISE_PEER_URLS", peer)
	if _, err := netip.ParseAddr(host); err == nil {
		l.Address, l.PeerPort = host, port
	} else if host != "" {
		m.note("the member is at %s, but listen.address must be its IP address", host)
	}
	if host2, port2 := m.only("ETCD_ADVERTISE_CLIENT_URLS", client); host2 == host {
		l.ClientPort = port2
	} else if host2 != "" {
		m.note("the member is at %s for clients and at %s for the others: it will be at listen.address for both", host2, host)
	}
	// These are what is listened on where nothing is said.
	local := []string{"https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(l.ClientPort)),
		"https://" + net.JoinHostPort("::1", strconv.Itoa(l.ClientPort))}
	urls := list(take("ETCD_LISTEN_CLIENT_URLS"))
	if !slices.ContainsFunc(local, func(u string) bool { return slices.Equal(urls, append(slices.Clone(client), u)) }) &&
		!slices.Equal(urls, client) {
		l.ClientURLs = urls
	}
	if urls = list(take("ETCD_LISTEN_PEER_URLS")); !slices.Equal(urls, peer) {
		l.PeerURLs = urls
	}
	l.MetricsURLs = list(take("ETCD_LISTEN_METRICS_URLS"))
}

// only returns the host and port of the first of some URLs.
func (m *migration) only(key string, urls []string) (host string, port int) {
	if len(urls) == 0 {
		m.note("%s is not set", key)
		return "", 0
	}
	if len(urls) > 1 {
		m.note("%s has %d URLs, but a configuration has one: %s", key, len(urls), urls[0])
	}
	u, err := url.Parse(urls[0])
	if err == nil {
		port, err = strconv.Atoi(u.Port())
	}
	if err != nil {
		m.note("%s is %q, which is not of the form https://address:port", key, urls[0])
		return "", 0
	}
	if u.Scheme != "https" {
		m.note("%s is %s: members of etcdadm use https only", key, urls[0])
	}
	return u.Hostname(), port
}

func (m *migration) certificates(take func(string) string) {
	var dirs []string
	for _, f := range []struct{ key, name string }{
		{"ETCD_CERT_FILE", "server.crt"}, {"ETCD_KEY_FILE", "server.key"}, {"ETCD_TRUSTED_CA_FILE", "ca.crt"},
		{"ETCD_PEER_CERT_FILE", "peer.crt"}, {"ETCD_PEER_KEY_FILE", "peer.key"}, {"ETCD_PEER_TRUSTED_CA_FILE", "ca.crt"},
	} {
		file := take(f.key)
		if path.Base(file) != f.name {
			m.note("%s is %q: etcdadm reads %s in the directory of certificates", f.key, file, f.name)
			continue
		}
		dirs = append(dirs, path.Dir(file))
	}
	slices.Sort(dirs)
	if dirs = slices.Compact(dirs); len(dirs) > 1 {
		m.note("the certificates are in %s: etcdadm reads all in one directory", strings.Join(dirs, " and "))
	}
	if len(dirs) > 0 {
		m.c.Paths.Certificates = dirs[0]
	}
}

// sans takes over the names in the certificates that no other field is for.
func (m *migration) sans(read func(dir, pair string) []string) {
	if read == nil || m.c.Paths.Certificates == "" {
		return
	}
	known := []string{strings.ToLower(string(m.c.Name)), m.c.Listen.Address, "localhost", "127.0.0.1", "::1"}
	extra := func(pair string) []string {
		return slices.DeleteFunc(read(m.c.Paths.Certificates, pair), func(name string) bool {
			return slices.Contains(known, strings.ToLower(name))
		})
	}
	m.c.Certificates.ServerSANs, m.c.Certificates.PeerSANs = extra("server"), extra("peer")
}

// list reads what etcd writes with commas.
func list(s string) []string {
	var out []string
	for word := range strings.SplitSeq(s, ",") {
		if word = strings.TrimSpace(word); word != "" {
			out = append(out, word)
		}
	}
	return out
}
