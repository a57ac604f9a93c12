package access

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
)

// Where etcd is if nothing else is known.
const (
	// envFile is the name of etcd's environment in the environment directory,
	// and advertised the variable in it with the member's client URLs.
	envFile    = "etcd.env"
	advertised = "ETCD_ADVERTISE_CLIENT_URLS"
)

// clientPort is etcd's own port for clients, as URLs have it.
var clientPort = strconv.Itoa(cluster.EtcdClientPort)

// Endpoints returns the client URLs of etcd: those of --endpoints, or those
// that etcd.env advertises, or those of the daemon on this machine, or
// https://127.0.0.1:2379. All have the same scheme.
func (a *Access) Endpoints() ([]string, error) {
	if err := a.environment(); err != nil {
		return nil, err
	}
	list, from := a.endpoints, "--endpoints"
	if len(list) == 0 {
		var err error
		if list, err = a.fromEnvironment(); err != nil {
			return nil, err
		}
		from = filepath.Join(a.Environment, envFile)
	}
	if len(list) == 0 {
		here, err := a.here()
		if err != nil {
			return nil, err
		}
		if here != nil {
			list, from = here.Endpoints(here.own), "the daemon's --client-urls"
		}
	}
	if len(list) == 0 {
		list = []string{net.JoinHostPort("127.0.0.1", clientPort)}
	}
	out := make([]string, 0, len(list))
	for _, text := range list {
		u, err := a.endpoint(strings.TrimSpace(text))
		if err != nil {
			return nil, cli.Usagef("%s: %v", from, err)
		}
		out = append(out, u)
	}
	for _, u := range out[1:] {
		if isTLS([]string{u}) != isTLS(out) {
			return nil, cli.Usagef("%s: http and https cannot be mixed: %s", from, strings.Join(out, ", "))
		}
	}
	if a.insecure && isTLS(out) {
		return nil, cli.Usagef("%s: %s does not go with --insecure, which uses http", from, out[0])
	}
	return out, nil
}

func isTLS(endpoints []string) bool {
	return len(endpoints) > 0 && strings.HasPrefix(endpoints[0], "https://")
}

// endpoint makes a client URL of what somebody typed: a URL, host:port or a
// host.
func (a *Access) endpoint(text string) (string, error) {
	scheme, rest, has := strings.Cut(text, "://")
	if !has {
		scheme, rest = "https", text
		if a.insecure {
			scheme = "http"
		}
	}
	if strings.Contains(rest, "@") {
		return "", errors.New("an endpoint has a user or a password in it; give it as https://HOST:PORT")
	}
	if scheme != "http" && scheme != "https" {
		return "", errors.New(text + " is neither http:// nor https://")
	}
	rest = strings.TrimSuffix(rest, "/")
	if ip := net.ParseIP(strings.Trim(rest, "[]")); ip != nil {
		rest = net.JoinHostPort(ip.String(), clientPort)
	} else if !strings.ContainsAny(rest, ":/?#") {
		rest = net.JoinHostPort(rest, clientPort)
	}
	u, err := url.Parse(scheme + "://" + rest)
	if err != nil {
		return "", err
	}
	if u.Hostname() == "" || u.Port() == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
		return "", errors.New(text + " is not of the form https://HOST:PORT")
	}
	return u.String(), nil
}

// fromEnvironment returns what etcd.env advertises, nil if there is no such
// file.
func (a *Access) fromEnvironment() ([]string, error) {
	b, err := os.ReadFile(filepath.Join(a.Environment, envFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, cli.WithHint(err, "name the endpoints: --endpoints=https://HOST:2379")
	}
	env, err := initfiles.ParseEnvFile(string(b))
	if err != nil {
		return nil, cli.WithHint(fmt.Errorf("%s: %w", filepath.Join(a.Environment, envFile), err),
			"name the endpoints: --endpoints=https://HOST:2379")
	}
	return slices.DeleteFunc(strings.Split(env[advertised], ","), func(u string) bool {
		return strings.TrimSpace(u) == ""
	}), nil
}
