package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cli"
)

// clients are the key pairs in the certificate directory that may call etcd, in
// the order in which they are looked for.
var clients = []string{"etcdctl-etcd-client", "apiserver-etcd-client"}

// files are the three files of a client's TLS.
type files struct{ ca, cert, key string }

// files returns the files that the flags name, or those of the certificate
// directory.
func (a *Access) files() (files, error) {
	f := files{a.caCert, a.cert, a.key}
	if f != (files{}) {
		if f.ca == "" || f.cert == "" || f.key == "" {
			return files{}, cli.Usagef("--cacert, --cert and --key are given together, or none of them")
		}
		return f, nil
	}
	f.ca = filepath.Join(a.Certs, "ca.crt")
	var tried []string
	for _, name := range clients {
		f.cert, f.key = filepath.Join(a.Certs, name+".crt"), filepath.Join(a.Certs, name+".key")
		if _, err := os.Stat(f.cert); err == nil {
			return f, nil
		}
		tried = append(tried, f.cert)
	}
	return files{}, cli.WithHint(
		fmt.Errorf("no client certificate for etcd: neither %s", strings.Join(tried, " nor ")), getCertificates)
}

const getCertificates = "on a machine of the cluster \"etcdadm init phase certificates\" and \"etcdadm join phase " +
	"certificates\" make it; " +
	"elsewhere copy it and use --certs-dir, or --cacert, --cert and --key; --insecure is for an etcd without TLS"

// Files returns the files of TLS for another program, empty ones where all endpoints are
// plain http. What this process has in memory alone keep puts where the other one can read
// it, and returns its path.
func (a *Access) Files(keep func(name string, text []byte) (string, error)) (ca, cert, key string, err error) {
	endpoints, err := a.Endpoints()
	if err != nil || !isTLS(endpoints) {
		return "", "", "", err
	}
	if a.local == nil {
		f, err := a.files()
		if err == nil {
			_, err = f.load() // says what is wrong with it, and what to do
		}
		return f.ca, f.cert, f.key, err
	}
	if err := a.local.issue(); err != nil {
		return "", "", "", err
	}
	secret, err := a.local.leaf.KeyPEM()
	if err != nil {
		return "", "", "", err
	}
	for _, f := range []struct {
		path *string
		name string
		text []byte
	}{{&ca, "ca.crt", a.local.ca.PEM()}, {&cert, "client.crt", a.local.leaf.CertPEM()}, {&key, "client.key", secret}} {
		if *f.path, err = keep(f.name, f.text); err != nil {
			return "", "", "", err
		}
	}
	return ca, cert, key, nil
}

// EtcdDirs are the directories in which the daemon on this machine looks for etcd, if it is
// its etcd that is reached.
func (a *Access) EtcdDirs() []string {
	if a.local == nil {
		return nil
	}
	return a.local.EtcdDirs
}

func (f files) load() (*tls.Config, error) {
	ca, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, unread("the CA of etcd's servers", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, cli.WithHint(fmt.Errorf("%s has no certificate in PEM form", f.ca), "copy the cluster's ca.crt again")
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			return nil, unread("the client's key pair", err)
		}
		return nil, cli.WithHint(fmt.Errorf("%s and %s are not a certificate and its key: %w", f.cert, f.key, err),
			"copy both again, or issue new ones: etcdadm certs renew")
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{pair}}, nil
}

func unread(what string, err error) error {
	hint := getCertificates
	if errors.Is(err, fs.ErrPermission) {
		hint = "run it as root, or as a user who may read the file"
	}
	return cli.WithHint(fmt.Errorf("read %s: %w", what, err), hint)
}
