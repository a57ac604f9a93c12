package etcdclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// keep writes a certificate, its key and the CA to files, as etcd wants them.
func (r realm) keep(t *testing.T, leaf tls.Certificate) etcdtest.Pair {
	t.Helper()
	dir := t.TempDir()
	p := etcdtest.Pair{Cert: filepath.Join(dir, "c.crt"), Key: filepath.Join(dir, "c.key"),
		CA: filepath.Join(dir, "ca.crt")}
	cert, key := pemOf(t, leaf)
	for path, data := range map[string][]byte{p.Cert: cert, p.Key: key, p.CA: r.ca.PEM()} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// as returns a client of a member with a certificate of that name, for one
// question at most.
func (r realm) as(t *testing.T, m *etcdtest.Member, name string) (*Client, context.Context) {
	t.Helper()
	return within(t, Options{Endpoints: []string{m.ClientURL}, TLS: r.client(r.issue(t, name, "127.0.0.1", time.Hour))})
}

func within(t *testing.T, o Options) (*Client, context.Context) {
	t.Helper()
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return c, ctx
}

// What a daemon may do is known before authentication is turned on, and before it is
// refused a backup: a user that may read may not do everything.
func TestRights(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		r := newRealm(t, "main")
		m := etcdtest.New(t, "a")
		m.SecureClients(r.keep(t, r.issue(t, "a", "127.0.0.1", time.Hour)))
		m.Start(t, bin)
		boss, _ := r.as(t, m, "root")
		serving(t, boss)
		ctx := t.Context()
		reported := func(user string, want Rights) {
			t.Helper()
			c, ctx := r.as(t, m, user)
			if got, err := c.Rights(ctx, user); err != nil || got != want {
				t.Errorf("of user %q it says %+v, %v, want %+v", user, got, err, want)
			}
		}
		add := func(user, role string) {
			t.Helper()
			if err := firstError(
				second(boss.c.UserAddWithOptions(ctx, user, "", noPassword)),
				ignoreExisting(second(boss.c.RoleAdd(ctx, role))),
				second(boss.c.UserGrantRole(ctx, user, role)),
			); err != nil {
				t.Fatal(err)
			}
		}
		reported("etcd-manager-a", Rights{})
		add("reader", "reading")
		all := clientv3.PermissionType(clientv3.PermRead)
		if _, err := boss.c.RoleGrantPermission(ctx, "reading", "\x00", "\x00", all); err != nil {
			t.Fatal(err)
		}
		reported("reader", Rights{})
		add("root", "root")
		reported("etcd-manager-a", Rights{Ahead: true})
		reported("reader", Rights{Ahead: true})
		if got, err := boss.Rights(ctx, ""); err != nil || got != (Rights{Ahead: true}) {
			t.Errorf("without a certificate: %+v, %v", got, err)
		}
		add("etcd-manager-a", "root")
		reported("etcd-manager-a", Rights{Ahead: true, Root: true})
		if _, err := boss.c.AuthEnable(ctx); err != nil {
			t.Fatal(err)
		}
		reported("etcd-manager-a", Rights{On: true, Root: true})
		reported("reader", Rights{On: true})
		reported("nobody", Rights{On: true})
	})
}

// With authentication on, etcd takes the name in a client's certificate for its
// user. A user of that name with the role root may ask all that a daemon asks;
// others are denied, and the reports say so.
func TestAuthenticationByCertificate(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		r := newRealm(t, "main")
		m := etcdtest.New(t, "a")
		m.SecureClients(r.keep(t, r.issue(t, "a", "127.0.0.1", time.Hour)))
		m.Start(t, bin)
		c, _ := r.as(t, m, "root")
		serving(t, c)
		ctx := t.Context()
		for _, user := range []string{"root", "etcd-manager-a"} {
			if err := firstError(
				second(c.c.UserAddWithOptions(ctx, user, "", noPassword)),
				ignoreExisting(second(c.c.RoleAdd(ctx, "root"))),
				second(c.c.UserGrantRole(ctx, user, "root")),
			); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.c.AuthEnable(ctx); err != nil {
			t.Fatal(err)
		}

		known, ctx := r.as(t, m, "etcd-manager-a")
		report, err := readServed(t, known)
		if err != nil || report.Read != cluster.ReadServed || report.Denied != "" || len(report.Members) != 1 {
			t.Errorf("a user with the role root receives %+v, %v", report, err)
		}
		stream, err := known.Snapshot(ctx)
		if err == nil {
			_, err = io.Copy(io.Discard, stream)
		}
		if err != nil {
			t.Errorf("a user with the role root gets no snapshot: %v", err)
		}

		stranger, ctx := r.as(t, m, "etcd-manager-b")
		// etcd 3.5 sends its status to whoever has a name.
		if report, err = readServed(t, stranger); err == nil {
			if report.Denied == "" || report.Read != cluster.ReadServed {
				t.Errorf("a stranger receives %+v, and not that it has no rights", report)
			}
		} else {
			if cause, text := Reason(ctx, m.ClientURL, nil, err); cause != cluster.CauseAuth {
				t.Errorf("a stranger's report ends with %v, which is said to be %s: %s", err, cause, text)
			}
		}
		_, err = stranger.AddLearner(ctx, []string{"http://127.0.0.1:1"})
		if err == nil || !Denied(err) || !strings.Contains(err.Error(), "grant-role") {
			t.Errorf("a stranger's change of the members ends with %v", err)
		}
		stream, err = stranger.Snapshot(ctx)
		if err == nil {
			_, err = io.Copy(io.Discard, stream)
		}
		if err == nil || !Denied(err) {
			t.Errorf("a stranger's snapshot ends with %v", err)
		}
	})
}

// readServed returns the first report that does not end for want of time, where the
// read in it was served; on a busy machine a handshake may take as long as a read may.
func readServed(t *testing.T, c *Client) (r cluster.Report, err error) {
	t.Helper()
	testwait.Until(t, "a read in its time", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err = c.Report(ctx)
		return err != nil && ctx.Err() == nil || r.Read == cluster.ReadServed
	})
	return r, err
}

func TestWhyAMemberGivesNoReport(t *testing.T) {
	bin := etcdtest.Binaries(t, "3.6.16")
	r, other := newRealm(t, "main"), newRealm(t, "other")
	secure, open := etcdtest.New(t, "a"), etcdtest.New(t, "b")
	secure.SecureClients(r.keep(t, r.issue(t, "a", "127.0.0.1", time.Hour)))
	secure.Start(t, bin)
	open.Start(t, bin)
	ok, _ := r.as(t, secure, "x")
	serving(t, ok)
	plain, _ := within(t, Options{Endpoints: []string{open.ClientURL}})
	serving(t, plain)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })

	for name, tc := range map[string]struct {
		o    Options
		want cluster.Cause
	}{
		"nothing listens": {Options{Endpoints: []string{"http://" + testport.Address(t)}}, cluster.CauseRefused},
		"a client of another CA": {
			Options{Endpoints: []string{secure.ClientURL}, TLS: &tls.Config{
				RootCAs: r.ca.Pool(), Certificates: []tls.Certificate{other.issue(t, "x", "127.0.0.1", time.Hour)},
			}}, cluster.CauseTLS,
		},
		"a server of another CA": {
			Options{Endpoints: []string{secure.ClientURL}, TLS: other.client(r.issue(t, "x", "127.0.0.1", time.Hour))},
			cluster.CauseTLS,
		},
		"no certificate": {Options{Endpoints: []string{secure.ClientURL}, TLS: r.client()}, cluster.CauseTLS},
		"TLS where none is spoken": {
			Options{Endpoints: []string{strings.Replace(open.ClientURL, "http:", "https:", 1)}, TLS: r.client()},
			cluster.CauseTLS,
		},
		"somebody listens and is mute": {
			Options{Endpoints: []string{"http://" + mute.Addr().String()}}, cluster.CauseTimeout,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := within(t, tc.o)
			testwait.For(t, "the reason", func(context.Context) error { // a busy machine may run out of time
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := c.Report(ctx)
				if err == nil {
					t.Fatal("it reports")
				}
				if cause, text := Reason(t.Context(), tc.o.Endpoints[0], tc.o.TLS, err); cause != tc.want {
					return fmt.Errorf("it is said to be %s: %s (%w)", cause, text, err)
				}
				return nil
			})
		})
	}
}

// A member that only answers does not serve: with its peers stopped, what it
// says of itself comes from memory.
func TestAReadThroughTheQuorumIsAskedOfTheMember(t *testing.T) {
	bin := etcdtest.Binaries(t, "3.6.16")
	var members []*etcdtest.Member
	for _, name := range []string{"a", "b", "c"} {
		members = append(members, etcdtest.New(t, name))
	}
	for _, m := range members {
		m.Start(t, bin, "--initial-cluster="+etcdtest.Initial(members...))
	}
	c, _ := within(t, Options{Endpoints: []string{members[0].ClientURL}})
	testwait.For(t, "a read through the quorum", func(ctx context.Context) error {
		if r, err := c.Report(ctx); err != nil || r.Read != cluster.ReadServed {
			return fmt.Errorf("it reports %+v, %w", r, err)
		}
		return nil
	})
	for _, m := range members[1:] {
		m.Kill()
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := c.Report(ctx)
	if err != nil || r.Leader != 0 && r.Read != cluster.ReadLate {
		t.Errorf("without its peers it reports %+v, %v", r, err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the report took %s", took)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := c.ReadThrough(ctx); err == nil {
		t.Error("it serves a read through a quorum that is not there")
	}
}

func second[T any](_ T, err error) error { return err }

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func ignoreExisting(err error) error {
	if err != nil && strings.Contains(err.Error(), "already exists") {
		return nil
	}
	return err
}

// noPassword makes users that come by certificate only.
var noPassword = &clientv3.UserAddOptions{NoPassword: true}

func pemOf(t *testing.T, leaf tls.Certificate) (cert, key []byte) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(leaf.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
