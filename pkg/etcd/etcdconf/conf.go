// Package etcdconf writes what an etcd process is given: its environment.
//
// etcd gets no command-line flags, because it refuses to start when an
// environment variable and a flag say the same thing. Everything here is a
// function of values; the same member always gets the same environment, byte
// for byte.
package etcdconf

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A State is etcd's "initial cluster state". etcd checks it only while its
// data directory is empty.
type State string

// The states.
const (
	// StateNew lets a member with an empty data directory bootstrap a cluster.
	StateNew State = "new"
	// StateExisting lets a member with an empty data directory only join one.
	// It is also the right state for a restart: should the data have vanished,
	// the member then fails instead of bootstrapping a second cluster.
	StateExisting State = "existing"
)

// DefaultAddress is where etcd listens when nothing else is said: on every
// IPv4 address of the machine.
const DefaultAddress = "0.0.0.0"

// A Member is all that decides the environment of one etcd process.
type Member struct {
	Name    cluster.NodeName
	Version etcdversion.Version
	Token   cluster.Token
	// DataDir is etcd's own data directory, an absolute path.
	DataDir string
	State   State
	// Peers is the initial cluster, with the member itself in it. It may be
	// empty for a restart.
	Peers []cluster.InitialMember
	// URLs are the member's own addresses, templates already expanded.
	URLs cluster.URLs
	// Quarantined makes the member serve on its quarantine URLs in place of its
	// client URLs.
	Quarantined bool
	// Uncompared leaves out that the member compares its data with that of its
	// peers before it serves, for which it waits seven seconds for each that does not
	// serve its peers yet. It is for members whose cluster waits for them, and that
	// are compared by whoever starts them.
	Uncompared bool
	// Address replaces the host of the URLs that etcd listens on, for peers and
	// clients; empty means [DefaultAddress]. It is an IP address, or localhost:
	// etcd binds to nothing else.
	Address string
	// ListenClientURLs and ListenPeerURLs, where they are not empty, are what etcd
	// listens on, as they are, and Address has no say. A quarantined member does
	// not listen on its client URLs.
	ListenClientURLs, ListenPeerURLs []string
	// MetricsURLs are extra listeners for /metrics and /health, taken as they
	// are. Empty strings in it are left out.
	MetricsURLs []string
	// TLS is nil for a member that speaks plain text.
	TLS *TLS
	// User holds ETCD_* variables of the operator, see [User]. They override
	// what is computed, except where [Ignored] says otherwise.
	User map[string]string
}

// TLS says where a member's key material is.
type TLS struct {
	Peer, Client Files
}

// Files are the paths of a trust bundle, a certificate and its key.
type Files struct {
	CA, Cert, Key string
}

// Env returns the complete environment of m's etcd process as KEY=VALUE,
// sorted. It is an error if m lacks something that etcd needs, or says
// something that etcd refuses.
func Env(m Member) ([]string, error) {
	if err := m.validate(); err != nil {
		return nil, err
	}
	env := map[string]string{
		"ETCD_NAME":                        string(m.Name),
		"ETCD_DATA_DIR":                    m.DataDir,
		"ETCD_INITIAL_CLUSTER_TOKEN":       string(m.Token),
		"ETCD_INITIAL_CLUSTER_STATE":       string(m.State),
		"ETCD_INITIAL_ADVERTISE_PEER_URLS": join(m.URLs.Peer),
		"ETCD_ADVERTISE_CLIENT_URLS":       join(m.clientURLs()),
		"ETCD_STRICT_RECONFIG_CHECK":       "true",
		// etcd 3.4 logs unstructured lines unless asked to.
		"ETCD_LOGGER":      "zap",
		"ETCD_LOG_OUTPUTS": "stdout",
	}
	if len(m.Peers) > 0 {
		env["ETCD_INITIAL_CLUSTER"] = initialCluster(m.Peers)
	}
	metrics := nonEmpty(m.MetricsURLs)
	if len(metrics) > 0 {
		env["ETCD_LISTEN_METRICS_URLS"] = join(metrics)
	}
	if err := m.listen(env); err != nil {
		return nil, err
	}
	if m.TLS != nil {
		m.TLS.peer(env)
		m.TLS.client(env, slices.Concat(metrics, m.clientURLs(), m.listenClientURLs()))
	}
	if err := m.overlay(env); err != nil {
		return nil, err
	}
	lines := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		lines = append(lines, k+"="+env[k])
	}
	return lines, nil
}

// clientURLs are the URLs at which the member is to be found by clients now.
func (m Member) clientURLs() []string {
	if m.Quarantined {
		return m.URLs.Quarantine
	}
	return m.URLs.Client
}

func (m Member) listen(env map[string]string) error {
	address := m.Address
	if address == "" {
		address = DefaultAddress
	}
	for _, l := range []struct {
		key         string
		asIs, bound []string
	}{
		{"ETCD_LISTEN_PEER_URLS", m.ListenPeerURLs, m.URLs.Peer},
		{"ETCD_LISTEN_CLIENT_URLS", m.listenClientURLs(), m.clientURLs()},
	} {
		urls, err := l.asIs, checkListen(l.asIs)
		if len(urls) == 0 {
			urls, err = bind(l.bound, address)
		}
		if err != nil {
			return fmt.Errorf("listen addresses of %s: %w", m.Name, err)
		}
		env[l.key] = join(urls)
	}
	return nil
}

// listenClientURLs are the URLs that clients are served on as they are.
func (m Member) listenClientURLs() []string {
	if m.Quarantined {
		return nil
	}
	return m.ListenClientURLs
}

// peer gives a member keys for its peers also where it has no https URL itself: the
// others may have one already, while TLS is being switched on.
func (t TLS) peer(env map[string]string) {
	env["ETCD_PEER_CLIENT_CERT_AUTH"] = "true"
	env["ETCD_PEER_TRUSTED_CA_FILE"] = t.Peer.CA
	env["ETCD_PEER_CERT_FILE"] = t.Peer.Cert
	env["ETCD_PEER_KEY_FILE"] = t.Peer.Key
}

// client leaves key material out where no URL uses it: etcd would only warn about
// it.
func (t TLS) client(env map[string]string, urls []string) {
	if !anySecure(urls) {
		return
	}
	env["ETCD_CLIENT_CERT_AUTH"] = "true"
	env["ETCD_TRUSTED_CA_FILE"] = t.Client.CA
	env["ETCD_CERT_FILE"] = t.Client.Cert
	env["ETCD_KEY_FILE"] = t.Client.Key
}

// initialCluster writes etcd's name=url,name=url form, by name; a member with
// two URLs is in it twice.
func initialCluster(initialMembers []cluster.InitialMember) string {
	sorted := slices.Clone(initialMembers)
	slices.SortFunc(sorted, func(a, b cluster.InitialMember) int {
		return strings.Compare(string(a.Name), string(b.Name))
	})
	var words []string
	for _, s := range sorted {
		for _, u := range s.PeerURLs {
			words = append(words, string(s.Name)+"="+u)
		}
	}
	return join(words)
}

func (m Member) validate() error {
	if err := m.Name.Validate(); err != nil {
		return fmt.Errorf("etcd environment: %w", err)
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("etcd environment of %s: %w", m.Name, fmt.Errorf(format, args...))
	}
	if err := m.Token.Validate(); err != nil {
		return fail("%w", err)
	}
	switch {
	case m.Version.IsZero():
		return fail("etcd version is missing")
	case !m.Version.Managed():
		return fail("etcd %s is too old, 3.4 is the first that can be run", m.Version)
	case !filepath.IsAbs(m.DataDir):
		return fail("data directory %q is not an absolute path", m.DataDir)
	case m.State != StateNew && m.State != StateExisting:
		return fail("start state %q is neither new nor existing", m.State)
	case m.State == StateNew && len(m.Peers) == 0:
		return fail("an initial member needs the list of its peers")
	case m.Quarantined && len(m.URLs.Quarantine) == 0:
		return fail("it is quarantined, but has no quarantine URL")
	}
	if err := m.validateURLs(); err != nil {
		return fail("%w", err)
	}
	return nil
}

func (m Member) validateURLs() error {
	found := len(m.Peers) == 0
	for _, s := range m.Peers {
		if err := s.Name.Validate(); err != nil {
			return fmt.Errorf("peer: %w", err)
		}
		if err := checkURLs("peer URL of "+string(s.Name), s.PeerURLs); err != nil {
			return err
		}
		found = found || s.Name == m.Name
	}
	if !found {
		return fmt.Errorf("it is not among its peers %s", initialCluster(m.Peers))
	}
	if err := checkURLs("peer URL", m.URLs.Peer); err != nil {
		return err
	}
	if err := checkURLs("client URL", m.clientURLs()); err != nil {
		return err
	}
	if m.TLS != nil {
		return nil
	}
	for _, u := range slices.Concat(m.URLs.Peer, m.clientURLs(), m.ListenPeerURLs, m.listenClientURLs()) {
		if secure(u) {
			return fmt.Errorf("%s needs TLS files, but none are given", u)
		}
	}
	return nil
}

func join(list []string) string { return strings.Join(list, ",") }
