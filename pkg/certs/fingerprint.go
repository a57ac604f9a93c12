package certs

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
)

// Fingerprint returns the SHA-256 of a certificate, in hexadecimal: what
// "openssl x509 -fingerprint -sha256" prints, without colons.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// KeyHash returns the hash of a certificate's public key in the form of
// kubeadm's discovery-token-ca-cert-hash: sha256:HEX. It stays the same when a
// CA's certificate is issued again for the same key.
func KeyHash(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}
