package certs

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
)

// lacks says what a certificate does not say although the request asks for it,
// empty if nothing. With external, the desired names may be missing.
func (r machineRequest) lacks(c *x509.Certificate, external bool) string {
	if c.Subject.CommonName != r.CommonName {
		return fmt.Sprintf("its common name is %q instead of %q", c.Subject.CommonName, r.CommonName)
	}
	for _, o := range r.Organization {
		if !slices.Contains(c.Subject.Organization, o) {
			return fmt.Sprintf("its organization is %q instead of %q", strings.Join(c.Subject.Organization, ", "), o)
		}
	}
	if !external && !sameSet(c.Subject.Organization, r.Organization) {
		return fmt.Sprintf("its organization is %q instead of %q", strings.Join(c.Subject.Organization, ", "),
			strings.Join(r.Organization, ", "))
	}
	if why := lacksUsage(c, r.Request); why != "" {
		return why
	}
	var missing []string
	for _, name := range missingSANs(c, r.Request) {
		if !external || !slices.Contains(r.desired, name) {
			missing = append(missing, name)
		}
	}
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

// surplus returns the names that c has and r does not ask for.
func surplus(c *x509.Certificate, r Request) []string {
	return without(sanTexts(c.DNSNames, ipStrings(c.IPAddresses)), sanTexts(r.DNSNames, ipStrings(r.IPs)))
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
