package etcdconf

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

var template = regexp.MustCompile(`__[a-z-]+__`)

// Expand replaces the templates __address__ and __name__ in URLs of a command
// line. An IPv6 address gets its brackets, whether or not the URL has them.
// Empty strings are left out. An unknown template, an address that is not an
// IP address, or a result that is not http(s)://host:port is an error.
func Expand(urls []string, address, name string) ([]string, error) {
	var out []string
	for _, u := range nonEmpty(urls) {
		for _, t := range template.FindAllString(u, -1) {
			if t != "__address__" && t != "__name__" {
				return nil, fmt.Errorf("URL %s: unknown placeholder %s, the known ones are __address__ and __name__", u, t)
			}
		}
		expanded := u
		if strings.Contains(u, "__address__") {
			host, err := ipHost(address)
			if err != nil {
				return nil, fmt.Errorf("URL %s: %w", u, err)
			}
			expanded = strings.ReplaceAll(expanded, "[__address__]", host)
			expanded = strings.ReplaceAll(expanded, "__address__", host)
		}
		expanded = strings.ReplaceAll(expanded, "__name__", name)
		if _, err := parseURL(expanded); err != nil {
			return nil, err
		}
		out = append(out, expanded)
	}
	return out, nil
}

// Insecure returns urls with every https replaced by http.
func Insecure(urls []string) []string {
	out := slices.Clone(urls)
	for i, u := range out {
		if rest, ok := strings.CutPrefix(u, "https://"); ok {
			out[i] = "http://" + rest
		}
	}
	return out
}

// bind returns urls with their hosts replaced by address. URLs that differ
// only in their host become one, because a port can be bound only once.
func bind(urls []string, address string) ([]string, error) {
	host := address
	if address != "localhost" {
		var err error
		if host, err = ipHost(address); err != nil {
			return nil, err
		}
	}
	var out []string
	for _, s := range urls {
		u, err := parseURL(s)
		if err != nil {
			return nil, err
		}
		u.Host = host + ":" + u.Port()
		if b := u.String(); !slices.Contains(out, b) {
			out = append(out, b)
		}
	}
	return out, nil
}

// CheckListenURL says why etcd cannot listen on u: it binds to IP addresses
// and localhost only.
func CheckListenURL(u string) error {
	parsed, err := parseURL(u)
	if err != nil {
		return err
	}
	if host := parsed.Hostname(); host != "localhost" {
		if _, err := ipHost(host); err != nil {
			return fmt.Errorf("URL %q: %w", u, err)
		}
	}
	return nil
}

func checkListen(urls []string) error {
	for _, u := range urls {
		if err := CheckListenURL(u); err != nil {
			return err
		}
	}
	return nil
}

// ipHost writes an IP address as the host of a URL.
func ipHost(address string) (string, error) {
	ip, err := netip.ParseAddr(strings.Trim(address, "[]"))
	switch {
	case err != nil:
		return "", fmt.Errorf("address %q is not an IP address", address)
	case ip.Zone() != "":
		return "", fmt.Errorf("address %q is valid on one interface only, etcd needs one without %%%s", address, ip.Zone())
	case ip.Is6():
		return "[" + ip.String() + "]", nil
	}
	return ip.String(), nil
}

// parseURL accepts what etcd accepts as the address of a member: http or
// https, a host and a port, and nothing else.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("URL %q is not of the form https://host:port", s)
	}
	host, port, err := net.SplitHostPort(u.Host)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("URL %q does not begin with http:// or https://", s)
	case err != nil || host == "" || port == "":
		return nil, fmt.Errorf("URL %q is not of the form %s://host:port", s, u.Scheme)
	case u.Path != "" || u.RawQuery != "" || u.User != nil || u.Fragment != "":
		return nil, fmt.Errorf("URL %q has more than a host and a port", s)
	case strings.Contains(s, ","):
		return nil, fmt.Errorf("URL %q has a comma in it", s)
	}
	return u, nil
}

func checkURLs(what string, urls []string) error {
	if len(urls) == 0 {
		return fmt.Errorf("%s is missing", what)
	}
	for _, u := range urls {
		if _, err := parseURL(u); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

func secure(u string) bool { return strings.HasPrefix(u, "https://") }

func anySecure(urls []string) bool { return slices.ContainsFunc(urls, secure) }

// nonEmpty drops empty strings: an empty flag value splits into one of them.
func nonEmpty(list []string) []string {
	var out []string
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}
