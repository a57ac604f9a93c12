package operate

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/configfile"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/hostaddr"
)

// complete fills in what the machine decides, and checks the whole. A machine
// that has a member already keeps its name and address, whatever the host name
// and the routes are now, and its version, whatever the default has become. The
// version is zero where neither says one.
func complete(ctx context.Context, cfg machine.Config, all bool) (machine.Config, error) {
	version, dataDir, start, keys := cfg.Version, cfg.Paths.Data, cfg.Timeouts.Start, cfg.Certificates.KeyAlgorithm
	cfg = configfile.Overlay(machine.Defaults(), cfg)
	if all {
		cfg.Service.InitSystem = written(cfg)
	}
	if start == 0 && cfg.Service.InitSystem == machine.Kubelet {
		cfg.Timeouts.Start = machine.Duration(machine.PodStartTimeout)
	}
	cfg = asWritten(cfg, all)
	if keys == "" && wantsRSA(cfg) {
		cfg.Certificates.KeyAlgorithm = machine.RSA
	}
	if dir := dataDirWritten(cfg); dataDir == "" && dir != "" {
		cfg.Paths.Data = dir
	}
	if version.IsZero() {
		cfg.Version = running(ctx, cfg)
	}
	if cfg.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return cfg, fmt.Errorf("the machine has no host name, so --name is needed: %w", err)
		}
		cfg.Name = cluster.NodeName(name)
	}
	if a := cfg.Listen.Address; a == "" || a == "0.0.0.0" || a == "::" {
		address, err := hostaddr.Default(a == "::")
		if err != nil && all {
			address, err = "127.0.0.1", nil // what builds nothing does not need one
		}
		if err != nil {
			return cfg, err
		}
		cfg.Listen.Address = address
	}
	whole := cfg
	if whole.Version.IsZero() {
		whole.Version = machine.DefaultVersion
	}
	if err := whole.Validate(); err != nil {
		return cfg, err
	}
	return cfg, whole.CheckFlags()
}

// wantsRSA reports whether new keys are RSA where nobody has said: where etcd is, or
// was, set to use cipher suites for RSA keys alone, and under an authority with an
// RSA key, as the existing tools make it. Those who renew certificates name no cipher
// suites.
func wantsRSA(cfg machine.Config) bool {
	if kind := suitedKeys(cfg); kind != x509.UnknownPublicKeyAlgorithm {
		return kind == x509.RSA
	}
	return certs.CAIsRSA(cfg.Paths.Certificates)
}

// suitedKeys returns the only kind of keys that etcd's cipher suites are for, zero where
// they are for both, or none is named.
func suitedKeys(cfg machine.Config) x509.PublicKeyAlgorithm {
	suites := cfg.Etcd.CipherSuites
	vars, err := variables(cfg)
	if text := vars["ETCD_CIPHER_SUITES"]; err == nil && len(suites) == 0 && text != "" {
		suites = strings.Split(text, ",")
	}
	some := func(keys string) bool {
		return slices.ContainsFunc(suites, func(s string) bool { return strings.Contains(s, keys) })
	}
	switch rsa, ecdsa := some("_RSA_"), some("_ECDSA_"); {
	case rsa == ecdsa:
		return x509.UnknownPublicKeyAlgorithm
	case rsa:
		return x509.RSA
	}
	return x509.ECDSA
}

// owner returns whom etcd's files belong to, nil for root.
func owner(s machine.Service) (*certs.FileOwner, error) {
	if s.User == "" && s.Group == "" {
		return nil, nil
	}
	o := &certs.FileOwner{}
	if s.User != "" {
		u, err := user.Lookup(s.User)
		id, numeric := strconv.Atoi(s.User)
		switch {
		case err == nil:
			o.UID, _ = strconv.Atoi(u.Uid) // numbers, on Linux
			o.GID, _ = strconv.Atoi(u.Gid)
		case numeric == nil:
			o.UID, o.GID = id, id
		default:
			return nil, &AccountError{Name: s.User, Err: err}
		}
	}
	if s.Group != "" {
		g, err := user.LookupGroup(s.Group)
		id, numeric := strconv.Atoi(s.Group)
		switch {
		case err == nil:
			o.GID, _ = strconv.Atoi(g.Gid)
		case numeric == nil:
			o.GID = id
		default:
			return nil, &AccountError{Name: s.Group, Group: true, Err: err}
		}
	}
	return o, nil
}

// An AccountError says that etcd is to run as somebody whom the machine does
// not know.
type AccountError struct {
	Name string
	// Group says that it is a group.
	Group bool
	Err   error
}

func (e *AccountError) Error() string {
	kind := "account"
	if e.Group {
		kind = "group"
	}
	return fmt.Sprintf("the machine has no %s %s: %v", kind, e.Name, e.Err)
}

// Unwrap returns the reason.
func (e *AccountError) Unwrap() error { return e.Err }

// Hint says what to do about it.
func (e *AccountError) Hint() string {
	if e.Group {
		return "groupadd --system " + e.Name
	}
	return fmt.Sprintf("useradd --system --home-dir /var/lib/etcd --shell /usr/sbin/nologin %s", e.Name)
}

// addresses returns the machine's own IP addresses.
func addresses() []string {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []string
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			out = append(out, n.IP.String())
		}
	}
	return out
}
