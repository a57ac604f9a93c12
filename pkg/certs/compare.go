package certs

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
)

// lacks says what a certificate does not say although etcd, or the request, needs
// it; empty if nothing. Whose name it has does not matter to etcd, and names that
// only we add may be missing: a certificate that somebody else made is used.
func (r machineRequest) lacks(c *x509.Certificate) string {
	if why := lacksUsage(c, r.Request); why != "" {
		return why
	}
	missing := without(missingSANs(c, r.Request), r.desired)
	switch len(missing) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("SAN %s is missing", missing[0])
	}
	return fmt.Sprintf("SANs %s are missing", strings.Join(missing, ", "))
}

func lacksUsage(c *x509.Certificate, r Request) string {
	if slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny) {
		return ""
	}
	if r.Server && !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth) {
		return "it is not for servers (extended key usage serverAuth)"
	}
	if r.Client && !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		return "it is not for clients (extended key usage clientAuth)"
	}
	return ""
}

// missingSANs returns the names that r asks for and c does not have.
func missingSANs(c *x509.Certificate, r Request) []string {
	return without(sanTexts(r.DNSNames, ipStrings(r.IPs)), sanTexts(c.DNSNames, ipStrings(c.IPAddresses)))
}

// sanTexts returns names in the form in which they are compared.
func sanTexts(dns, ips []string) []string {
	var texts []string
	for _, d := range dns {
		texts = append(texts, strings.ToLower(d))
	}
	return append(texts, ips...)
}

func without(a, b []string) []string {
	var rest []string
	for _, s := range a {
		if !slices.Contains(b, s) {
			rest = append(rest, s)
		}
	}
	return rest
}
