package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// parseKey reads the first private key in PEM text: RSA or ECDSA, in the forms
// of PKCS#1, PKCS#8 or SEC 1.
func parseKey(text []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "RSA PRIVATE KEY":
			if block.Headers["DEK-Info"] != "" {
				return nil, errors.New("the private key is encrypted")
			}
			return x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			if block.Headers["DEK-Info"] != "" {
				return nil, errors.New("the private key is encrypted")
			}
			key, err := x509.ParseECPrivateKey(block.Bytes)
			if err != nil {
				return nil, err
			}
			return checkCurve(key)
		case "PRIVATE KEY":
			return parsePKCS8(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			return nil, errors.New("the private key is encrypted")
		}
	}
	return nil, errors.New("there is no private key in it (PEM)")
}

func parsePKCS8(der []byte) (crypto.Signer, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return key, nil
	case *ecdsa.PrivateKey:
		return checkCurve(key)
	}
	return nil, fmt.Errorf("the private key is a %T; RSA and ECDSA keys are supported", key)
}

// checkCurve refuses the curves that TLS does not know.
func checkCurve(key *ecdsa.PrivateKey) (crypto.Signer, error) {
	switch key.Curve {
	case elliptic.P256(), elliptic.P384(), elliptic.P521():
		return key, nil
	}
	return nil, fmt.Errorf("the private key is on the curve %s; P-256, P-384 and P-521 are supported", key.Params().Name)
}

// keyPEM writes a key in the form that all etcd versions and the existing
// etcd-manager read: PKCS#1 for RSA, SEC 1 for ECDSA.
func keyPEM(key crypto.Signer) ([]byte, error) {
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), nil
	case *ecdsa.PrivateKey:
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			return nil, err
		}
		return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
	}
	return nil, fmt.Errorf("private key of type %T cannot be written", key)
}

// parseCerts reads all certificates in PEM text, at least one.
func parseCerts(text []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(certs)+1, err)
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, errors.New("there is no certificate in it (PEM)")
	}
	return certs, nil
}

func certPEM(certs ...*x509.Certificate) []byte {
	var b bytes.Buffer
	for _, c := range certs {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return b.Bytes()
}

// samePublicKey reports whether a certificate is of a key.
func samePublicKey(c *x509.Certificate, key crypto.Signer) bool {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(c.PublicKey)
}
