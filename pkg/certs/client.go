package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// ClientTLSFromFiles returns the TLS configuration of a client of etcd: it
// trusts the certificates in the file ca, and shows the pair of cert and key.
// The pair is read again at each handshake, the CA is not. What is wrong with a
// file is a *[FileError], which says which and what to do.
func ClientTLSFromFiles(ca, cert, key string) (*tls.Config, error) {
	bundle, err := readCerts(ca, "copy the ca.crt of the cluster")
	if err != nil {
		return nil, err
	}
	pair, err := clientPair(cert, key)
	if err != nil {
		return nil, err
	}
	if now := time.Now(); now.After(pair.Leaf.NotAfter) {
		return nil, &FileError{File: cert, Problem: fmt.Sprintf("%s expired on %s", cert, day(pair.Leaf.NotAfter)),
			Do: renewHint(cert)}
	}
	roots := x509.NewCertPool()
	for _, c := range bundle {
		roots.AddCert(c)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		RootCAs:    roots,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return clientPair(cert, key)
		},
	}, nil
}

func clientPair(cert, key string) (*tls.Certificate, error) {
	if _, err := readCerts(cert, issueHint(cert)); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(key)
	if err != nil {
		return nil, &FileError{File: key, Problem: key + ": " + cause(err), Do: accessHint(err, issueHint(key))}
	}
	if _, err := parseKey(text); err != nil {
		return nil, &FileError{File: key, Problem: key + ": " + err.Error(), Do: issueHint(key)}
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, &FileError{File: cert, Problem: fmt.Sprintf("%s and %s: %s", cert, key, err), Do: issueHint(cert)}
	}
	return &pair, nil
}

// readCerts reads a file with certificates; do is the hint if there is none.
func readCerts(file, do string) ([]*x509.Certificate, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, &FileError{File: file, Problem: file + ": " + cause(err), Do: accessHint(err, do)}
	}
	certs, err := parseCerts(text)
	if err != nil {
		return nil, &FileError{File: file, Problem: file + ": " + err.Error(), Do: do}
	}
	return certs, nil
}

func accessHint(err error, do string) string {
	if errors.Is(err, fs.ErrPermission) {
		return "run it as root"
	}
	return do
}

func issueHint(file string) string {
	return fmt.Sprintf("issue what is missing: etcdadm init phase certificates --certs-dir=%s", filepath.Dir(file))
}

func renewHint(file string) string {
	return fmt.Sprintf("etcdadm certs renew all --certs-dir=%s", filepath.Dir(file))
}
