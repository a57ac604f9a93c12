// Package proxies says which requests go through the proxy that the environment names. Clouds
// have their metadata, and the credentials of a machine, at addresses of its own link: a proxy
// is another machine, and would get its own.
package proxies

import (
	"net/http"
	"net/netip"
	"net/url"
)

// ec2 is where Amazon's services of a machine's own link are with IPv6: metadata at ::254,
// the credentials of EKS pods at ::23.
var ec2 = netip.MustParsePrefix("fd00:ec2::/32")

// Of is [http.ProxyFromEnvironment] for all requests but those to this machine's own link.
func Of(r *http.Request) (*url.URL, error) {
	if a, err := netip.ParseAddr(r.URL.Hostname()); err == nil && (a.Unmap().IsLinkLocalUnicast() || ec2.Contains(a)) {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

// Client returns a client with the default transport, but for its proxy.
func Client() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = Of
	return &http.Client{Transport: t}
}
