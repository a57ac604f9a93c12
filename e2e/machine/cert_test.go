package machine

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"
)

// certificate reads a certificate of the host.
func (h *host) certificate(name string) *x509.Certificate {
	h.t.Helper()
	block, _ := pem.Decode([]byte(h.read(h.path("pki", name+".crt"))))
	if block == nil {
		h.t.Fatalf("%s: %s.crt has no certificate", h.name, name)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		h.t.Fatalf("%s: %s.crt: %v", h.name, name, err)
	}
	return cert
}

// describe says in a line what a certificate is for.
func describe(c *x509.Certificate) string {
	var names []string
	names = append(names, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	slices.Sort(names)
	return fmt.Sprintf("%s %s for %s, usage %d %v, %s, for %s", c.PublicKeyAlgorithm, c.Subject, strings.Join(names, ","),
		c.KeyUsage, c.ExtKeyUsage, c.SignatureAlgorithm, c.NotAfter.Sub(c.NotBefore).Round(time.Minute))
}

// bare takes all variables of etcdadm away from the host's commands.
func (h *host) bare() {
	for _, line := range h.env() {
		if k, _, _ := strings.Cut(line, "="); strings.HasPrefix(k, "ETCDADM_") {
			h.vars[k] = ""
		}
	}
}
