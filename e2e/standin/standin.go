// Package standin is a program, a stand-in for the existing etcd-manager as a process: it
// takes the lines that kops writes, issues certificates, runs etcd from the file state,
// and as the leader of its kind bootstraps, grows, shrinks and restores a cluster and
// takes backups. It is there to be exchanged for this project's daemon, and back.
//
// It is written from a description of what the existing one does, with its habits: it ends
// at once at any signal, and its etcd with it, as in a container; it ends etcd with SIGKILL,
// keeps lists of other ages in state, and wipes a cluster whose marker is missing from the
// store. Its tests, those of [existing], and TestTheExistingOneActsInBetween of the package
// e2e hold it to that description. What it does not model, and why:
//
//   - A change of the etcd version, in place or by dump and restore. Nobody changes both the
//     program and the version at the same time.
//   - What a machine with --etcd-insecure does that a leader without it orders to use TLS: the
//     description does not say. Here it refuses, and keeps its member as it is.
//   - The removal of a member that is not healthy while there are more than the spec wants:
//     at the right size that never happens.
//   - Whom a map gives first: of several that would do, it takes the first by name, to create
//     and to look; the last one to remove and to restore.
//   - Retention times of the environment, --env-file, --static-config, and other stores than
//     directories: they decide nothing that matters to a neighbour. Volumes are found and
//     mounted by this project's code.
//   - Waits that never end: questions to etcd end after 10 s, also those of a backup.
//   - Certificates have RSA keys of 2048 bits, not of 4096, which take seconds to make.
//   - The block of the hosts file is written once, and not read back.
//   - A restore takes the etcdutl of the version that runs, not that of the version that the
//     backup was taken with, and has no CAs of its own: its etcd is at a socket.
//   - A call to a machine without a member is an error; the existing one panics.
package standin

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/etcdadm/etcdadm/pkg/testing/existing"
)

// Variable is the environment variable that makes a program that calls [Wanted] a
// stand-in. Its value is the time between two pings, 5 s for the existing one; all other
// times are in proportion.
const Variable = "ETCDADM_E2E_STANDIN"

// Wanted says that the process is to be a stand-in.
func Wanted() bool { return os.Getenv(Variable) != "" }

type options struct {
	store, cluster, data, name, address, pki, suffix string
	client, peer, quarantine                         string
	port                                             int
	insecure                                         bool
	interval                                         time.Duration
	etcd                                             []string
	volumeProvider, volumeNameTag                    string
	volumeTags                                       []string
	places                                           *places
}

func parse(args []string) (options, error) {
	o := options{places: &places{at: map[string]string{}}}
	fs := flag.NewFlagSet("etcd-manager", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	for name, to := range map[string]*string{
		"backup-store": &o.store, "cluster-name": &o.cluster, "data-dir": &o.data, "node-name": &o.name,
		"address": &o.address, "pki-dir": &o.pki, "dns-suffix": &o.suffix, "client-urls": &o.client,
		"peer-urls": &o.peer, "quarantine-client-urls": &o.quarantine, "volume-provider": &o.volumeProvider,
		"volume-name-tag": &o.volumeNameTag, "v": new(string), // without a meaning here
	} {
		fs.StringVar(to, name, "", "")
	}
	fs.Bool("containerized", false, "")
	fs.BoolVar(&o.insecure, "etcd-insecure", false, "")
	fs.IntVar(&o.port, "grpc-port", 8000, "")
	fs.DurationVar(&o.interval, "backup-interval", 15*time.Minute, "")
	fs.DurationVar(&o.places.every, "discovery-poll-interval", time.Minute, "")
	fs.Func("volume-tag", "", func(tag string) error { o.volumeTags = append(o.volumeTags, tag); return nil })
	fs.Func("etcd-dir", "", func(dir string) error { o.etcd = append(o.etcd, filepath.SplitList(dir)...); return nil })
	fs.Func("seeds", "", func(list string) error {
		for seed := range strings.SplitSeq(list, ",") {
			name, address, _ := strings.Cut(seed, "=")
			o.places.at[name] = address
		}
		return nil
	})
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.store, o.places.port = strings.TrimPrefix(o.store, "file://"), o.port
	if len(o.etcd) == 0 {
		o.etcd = []string{"/opt"}
	}
	o.pki = cmp.Or(o.pki, "/etc/kubernetes/pki/etcd-manager")
	return o, nil
}

// host is what URLs call a node.
func (o options) host(name string) string {
	if o.suffix == "" {
		return name
	}
	return name + "." + strings.TrimPrefix(o.suffix, ".")
}

// node is this machine's node, made from the flags.
func (o options) node() existing.Node {
	urls := func(template string) []string {
		u := strings.ReplaceAll(template, "__name__", o.host(o.name))
		if o.insecure {
			u = strings.Replace(u, "https://", "http://", 1)
		}
		return []string{u}
	}
	return existing.Node{Name: o.name, Peer: urls(o.peer), Client: urls(o.client), QuarantineURLs: urls(o.quarantine)}
}

// secure returns URLs with https.
func secure(urls []string) (list []string) {
	for _, u := range urls {
		list = append(list, strings.Replace(u, "http://", "https://", 1))
	}
	return list
}

// withTLS returns a node whose etcd has TLS.
func withTLS(n existing.Node) existing.Node {
	n.Peer, n.Client, n.QuarantineURLs, n.TLS = secure(n.Peer), secure(n.Client), secure(n.QuarantineURLs), true
	return n
}

// Run is the program. It returns when it cannot run.
func Run(ctx context.Context, args []string) error {
	ping, err := time.ParseDuration(os.Getenv(Variable))
	if err != nil {
		return err
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	if o.volumeProvider != "" {
		if err := o.mount(ctx); err != nil {
			return err
		}
	}
	self := fmt.Sprintf("%s:%d", o.address, o.port)
	o.places.at[o.name] = self
	log.Printf("stand-in %s starts", o.name)
	m, err := newMachine(o)
	if err != nil {
		return err
	}
	server, client, err := m.credentials()
	if err != nil {
		return err
	}
	c := &controller{m: m, every: 2 * ping}
	_, err = existing.Start(ctx, existing.Options{
		Name: o.name, Cluster: o.cluster, Address: self, Server: server, Client: client,
		Discovery: o.places.known,
		PingEvery: ping, Healthy: 12 * ping, Round: 2 * ping,
		Machine: m, Act: c.act,
	})
	if err != nil {
		return err
	}
	go o.places.watch(ctx, m.found)
	m.watch(ctx, 2*ping)
	return errors.New("the watch is over")
}

// credentials issues the daemon's certificates.
func (m *machine) credentials() (
	credentials.TransportCredentials, func(string) credentials.TransportCredentials, error,
) {
	ca, err := readAuthority(m.o.pki, "etcd-manager-ca")
	if err != nil {
		return nil, nil, err
	}
	name := "etcd-manager-server-" + m.o.name
	server, err := ca.pair(filepath.Join(m.o.pki, name), name, []string{name}, x509.ExtKeyUsageServerAuth)
	if err != nil {
		return nil, nil, err
	}
	name = "etcd-manager-client-" + m.o.name
	client, err := ca.pair(filepath.Join(m.o.pki, name), name, nil, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{server}, ClientCAs: ca.pool, ClientAuth: tls.RequireAndVerifyClientCert,
			MinVersion: tls.VersionTLS12,
		}), func(name string) credentials.TransportCredentials {
			return credentials.NewTLS(&tls.Config{
				Certificates: []tls.Certificate{client}, RootCAs: ca.pool, ServerName: "etcd-manager-server-" + name,
				MinVersion: tls.VersionTLS12,
			})
		}, nil
}

// hostOf returns the host of a URL.
func hostOf(u string) string {
	parsed, err := url.Parse(u)
	if err != nil {
		return ""
	}
	return parsed.Hostname()
}
