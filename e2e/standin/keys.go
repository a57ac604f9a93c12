package standin

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// An authority signs certificates. Keys are RSA keys, or it is an error.
type authority struct {
	cert *x509.Certificate
	key  *rsa.PrivateKey
	pool *x509.CertPool
	pem  []byte
}

// readAuthority reads a bundle, and issues with the first certificate that has the key.
func readAuthority(dir, name string) (*authority, error) {
	bundle, err := os.ReadFile(filepath.Join(dir, name+".crt"))
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(filepath.Join(dir, name+".key"))
	if err != nil {
		return nil, err
	}
	a := &authority{pool: x509.NewCertPool(), pem: bundle}
	a.pool.AppendCertsFromPEM(bundle)
	for rest := bundle; a.cert == nil; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, fmt.Errorf("did not find certificate for private key %s", name)
		}
		pair, err := tls.X509KeyPair(pem.EncodeToMemory(block), key)
		if err != nil {
			continue
		}
		a.cert = pair.Leaf
		var ok bool
		if a.key, ok = pair.PrivateKey.(*rsa.PrivateKey); !ok {
			return nil, fmt.Errorf("unexpected private key type in %s: %T", name, pair.PrivateKey)
		}
	}
	return a, nil
}

// readKey returns the key that is there, or a new one.
func readKey(path string) (*rsa.PrivateKey, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != "RSA PRIVATE KEY" {
		return nil, fmt.Errorf("unexpected private key type in %s", path)
	}
	return x509.ParsePKCS1PrivateKey(block.Bytes)
}

// pair issues a certificate for what is at path.key, which is made where it is missing.
func (a *authority) pair(path, name string, hosts []string, use ...x509.ExtKeyUsage) (tls.Certificate, error) {
	key, err := readKey(path + ".key")
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 62))
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: a.cert.NotBefore,
		NotAfter:    time.Now().Add(2 * 365 * 24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: use,
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return tls.Certificate{}, err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := os.WriteFile(path+".key", pem.EncodeToMemory(block), 0o600); err != nil {
		return tls.Certificate{}, err
	}
	crt := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(path+".crt", crt, 0o644); err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(crt, pem.EncodeToMemory(block))
}

// issue issues the certificates of the member, and returns their directory.
func (m *machine) issue(token string) (string, error) {
	dir := filepath.Join(m.o.data, "pki", token)
	n := m.own()
	var peers, clients []string
	for _, u := range n.Peer {
		peers = append(peers, hostOf(u))
	}
	for _, u := range n.Client {
		clients = append(clients, hostOf(u))
	}
	always := []string{n.Name, "127.0.0.1", "::1"}
	for _, role := range []struct {
		ca, dir, file string
		names         []string
	}{
		{"etcd-peers-ca", "peers", "me", slices.Concat(always, peers, []string{m.o.address})},
		{"etcd-clients-ca", "clients", "server", slices.Concat(always, clients, peers)},
	} {
		ca, err := readAuthority(m.o.pki, role.ca)
		if err != nil {
			return "", err
		}
		_, err = ca.pair(filepath.Join(dir, role.dir, role.file), n.Name, role.names,
			x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, role.dir, "ca.crt"), ca.pem, 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}
