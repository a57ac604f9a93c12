package machine

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// A member is one line of etcd's member list.
type member = clientv3.Member

// askTime bounds one question to etcd.
const askTime = 20 * time.Second

// tls returns the host's identity as a client of etcd, with a pair of its
// certificates.
func (h *host) tls(pair string) *tls.Config {
	h.t.Helper()
	cert, err := tls.LoadX509KeyPair(h.path("pki", pair+".crt"), h.path("pki", pair+".key"))
	if err != nil {
		h.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(h.read(h.path("pki", "ca.crt")))) {
		h.t.Fatalf("%s: ca.crt has no certificate", h.name)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{cert}}
}

// client returns a client of the members on the hosts, with the certificates of
// this one. It is closed with the test.
func (h *host) client(members ...*host) *clientv3.Client {
	h.t.Helper()
	cfg := clientv3.Config{TLS: h.tls("etcdctl-etcd-client"), DialTimeout: askTime, Logger: zap.NewNop()}
	for _, m := range members {
		cfg.Endpoints = append(cfg.Endpoints, m.clientURL())
	}
	if h.space != nil {
		cfg.DialOptions = append(cfg.DialOptions,
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return h.space.dial(ctx, "tcp", strings.TrimPrefix(address, "https://"))
			}))
	}
	c, err := clientv3.New(cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask asks etcd, and once more where it says that an election was in between: on a
// busy machine there is one any time.
func (h *host) ask(what string, f func(ctx context.Context) error) {
	h.t.Helper()
	var fatal error
	err := poll(commandTime/3, func() error {
		ctx, cancel := context.WithTimeout(h.t.Context(), askTime)
		defer cancel()
		err := f(ctx)
		if err == nil || slices.ContainsFunc(elections, func(passing error) bool { return errors.Is(err, passing) }) {
			return err
		}
		fatal = err
		return nil
	})
	if err = errors.Join(err, fatal); err != nil {
		h.t.Fatalf("%s: %s: %v", h.name, what, err)
	}
}

// elections are what a member says where its cluster elects a leader.
var elections = []error{
	rpctypes.ErrNoLeader, rpctypes.ErrLeaderChanged, rpctypes.ErrTimeout, rpctypes.ErrTimeoutDueToLeaderFail,
	rpctypes.ErrTimeoutDueToConnectionLost,
}

// put writes a key through the host's member.
func (h *host) put(key, value string) {
	h.t.Helper()
	h.ask("put "+key, func(ctx context.Context) error {
		_, err := h.client(h).Put(ctx, key, value)
		return err
	})
}

// get reads a key through the host's member, "" if it is not there.
func (h *host) get(key string) string {
	h.t.Helper()
	var r *clientv3.GetResponse
	h.ask("get "+key, func(ctx context.Context) (err error) {
		r, err = h.client(h).Get(ctx, key)
		return err
	})
	if len(r.Kvs) == 0 {
		return ""
	}
	return string(r.Kvs[0].Value)
}

// members returns the member list as the host's member has it.
func (h *host) members() []*member {
	h.t.Helper()
	var r *clientv3.MemberListResponse
	h.ask("member list", func(ctx context.Context) (err error) {
		r, err = h.client(h).MemberList(ctx)
		return err
	})
	var members []*member
	for _, m := range r.Members {
		members = append(members, (*member)(m))
	}
	return members
}

// wantVoters fails the test unless the list has exactly these members, and all
// are voters.
func (h *host) wantVoters(names ...string) {
	h.t.Helper()
	var got []string
	for _, m := range h.members() {
		name := m.Name
		if m.IsLearner {
			name += " (learner)"
		}
		got = append(got, name)
	}
	slices.Sort(got)
	slices.Sort(names)
	if !slices.Equal(got, names) {
		h.t.Fatalf("%s: the members are %q, want %q", h.name, got, names)
	}
}

// serves returns the version of etcd that answers on the host.
func (h *host) serves() string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), askTime)
	defer cancel()
	r, err := h.client(h).Status(ctx, h.clientURL())
	if err != nil {
		h.t.Fatalf("%s: status: %v", h.name, err)
	}
	return r.Version
}

// http returns a client that has a pair of the host's certificates, or none.
func (h *host) http(pair string) *http.Client {
	h.t.Helper()
	transport := &http.Transport{TLSClientConfig: h.tls("etcdctl-etcd-client")}
	if pair == "" {
		transport.TLSClientConfig.Certificates = nil
	} else {
		transport.TLSClientConfig = h.tls(pair)
	}
	if h.space != nil {
		transport.DialContext = h.space.dial
	}
	h.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Timeout: askTime, Transport: transport}
}

// found makes a cluster of the hosts: the first one inits, the others join it.
func found(hosts ...*host) {
	first := hosts[0]
	first.t.Helper()
	first.ok("init")
	for _, h := range hosts[1:] {
		h.copyCA(first)
		h.ok("join", first.clientURL())
	}
}

// newHosts returns machines that are called a, b, c and so on.
func newHosts(h0 func(name string) *host, count int) []*host {
	hosts := make([]*host, count)
	for i := range hosts {
		hosts[i] = h0(fmt.Sprintf("%c", 'a'+i))
	}
	return hosts
}
