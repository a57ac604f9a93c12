package certs

import (
	"crypto/tls"
	"io"
	"log"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/machine"
)

// etcdBinary returns the etcd that machines get by default.
func etcdBinary(t *testing.T) string {
	t.Helper()
	dirs := os.Getenv(etcdbin.DirVariable)
	if dirs == "" {
		t.Skip(etcdbin.DirVariable + " is not set: no etcd to test with")
	}
	found, err := etcdbin.Finder{Dirs: filepath.SplitList(dirs)}.Find(machine.DefaultVersion)
	if err != nil {
		t.Fatal(err)
	}
	return found.Etcd
}

func serverTLS(dir string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"))
	return &tls.Config{Certificates: []tls.Certificate{pair}}, err
}

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
