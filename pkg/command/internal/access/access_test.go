package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// A result is what became of a command line.
type result struct {
	code           int
	stdout, stderr string
}

// run runs a command with the flags, which does what f says.
func run(t *testing.T, f func(ctx context.Context, a *Access) error, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := &cobra.Command{Use: "etcdadm", Args: cobra.NoArgs}
	cmd := &cobra.Command{Use: "look", Args: cobra.NoArgs}
	root.AddCommand(cmd)
	a := Add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f(cmd.Context(), a) }
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	// Nothing of the machine's own.
	none := t.TempDir()
	code := cli.Run(t.Context(), root,
		append([]string{"look", "--certs-dir=" + none, "--environment-dir=" + none}, args...))
	return result{code, stdout.String(), stderr.String()}
}

// endpoints returns what the flags say, or the error output.
func endpoints(t *testing.T, args ...string) string {
	t.Helper()
	var got []string
	r := run(t, func(_ context.Context, a *Access) (err error) {
		got, err = a.Endpoints()
		return err
	}, args...)
	return strings.Join(got, " ") + r.stderr
}

func TestEndpoints(t *testing.T) {
	for args, want := range map[string]string{
		"":                                     "https://127.0.0.1:2379",
		"--endpoints=https://10.0.0.1:2379":    "https://10.0.0.1:2379",
		"--endpoints=10.0.0.1:2379,10.0.0.2:1": "https://10.0.0.1:2379 https://10.0.0.2:1",
		"--endpoints=a --endpoints=b":          "https://a:2379 https://b:2379",
		"--endpoints=::1,[::2]:1,https://[::3]:4/": "https://[::1]:2379 https://[::2]:1 https://[::3]:4",
		"--endpoints=10.0.0.1 --insecure":          "http://10.0.0.1:2379",
		"--insecure":                               "http://127.0.0.1:2379",
		"--endpoints=http://10.0.0.1:2379":         "http://10.0.0.1:2379",
		"--endpoints=http://a:1,https://b:1":       "cannot be mixed",
		"--endpoints=https://a:1 --insecure":       "does not go with --insecure",
		"--endpoints=ftp://a:1":                    "neither http:// nor https://",
		"--endpoints=https://a:1/path":             "is not of the form https://HOST:PORT",
		"--endpoints=https://me:secret@a:1":        "an endpoint has a user or a password in it",
		"--endpoints=https://a":                    "https://a:2379", // as for join
		"--endpoints=https://10.0.0.1/":            "https://10.0.0.1:2379",
		"--endpoints=[::2]":                        "https://[::2]:2379",
		"--endpoints=https://a?b":                  "is not of the form https://HOST:PORT",
		"--endpoints=https://:1":                   "is not of the form https://HOST:PORT",
		"--endpoints=https://a:port":               "invalid port",
		"--endpoints=,":                            "is not of the form",
	} {
		t.Run(args, func(t *testing.T) {
			got := endpoints(t, strings.Fields(args)...)
			if got != want && !(strings.HasPrefix(got, "error: --endpoints: ") && strings.Contains(got, want)) {
				t.Errorf("endpoints are %s, want %s", got, want)
			}
		})
	}
}

func TestEndpointsOfTheMachine(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]string{
		"ETCD_NAME=a\nETCD_ADVERTISE_CLIENT_URLS=https://10.0.0.1:2379\n":       "https://10.0.0.1:2379",
		"ETCD_ADVERTISE_CLIENT_URLS=\"https://[::1]:1, https://10.0.0.1:2379\"": "https://[::1]:1 https://10.0.0.1:2379",
		"ETCD_NAME=a\n":                   "https://127.0.0.1:2379",
		"ETCD_ADVERTISE_CLIENT_URLS=\n":   "https://127.0.0.1:2379",
		"ETCD_ADVERTISE_CLIENT_URLS=\"x":  "the quote in line 1 is not closed",
		"ETCD_ADVERTISE_CLIENT_URLS=x://": "etcd.env: x:// is neither",
	} {
		if err := os.WriteFile(filepath.Join(dir, "etcd.env"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := endpoints(t, "--environment-dir="+dir); got != want &&
			!(strings.HasPrefix(got, "error: ") && strings.Contains(got, want)) {
			t.Errorf("%q: endpoints are %s, want %s", content, got, want)
		}
		if got := endpoints(t, "--environment-dir="+dir, "--endpoints=a:1"); got != "https://a:1" {
			t.Errorf("the flag does not go before the file: %s", got)
		}
	}
	if err := os.Remove(filepath.Join(dir, "etcd.env")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "etcd.env"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := endpoints(t, "--environment-dir="+dir); !strings.Contains(got, "is a directory") ||
		!strings.Contains(got, "hint: name the endpoints") {
		t.Errorf("a file that cannot be read: %s", got)
	}
}

// pki is a directory as the machine's, with a CA and pairs.
type pki struct {
	dir string
	ca  *certs.CA
}

func newPKI(t *testing.T, pairs ...string) pki {
	t.Helper()
	p := pki{dir: t.TempDir()}
	var err error
	if p.ca, err = certs.NewCA(certs.CASpec{CommonName: "etcd", Lifetime: time.Hour}, time.Now()); err != nil {
		t.Fatal(err)
	}
	p.write(t, "ca.crt", p.ca.PEM())
	for _, name := range pairs {
		leaf, err := p.ca.Issue(certs.Request{
			CommonName: name, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Client: true, Server: true, Lifetime: time.Hour,
		}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		key, err := leaf.KeyPEM()
		if err != nil {
			t.Fatal(err)
		}
		p.write(t, name+".crt", leaf.CertPEM())
		p.write(t, name+".key", key)
	}
	return p
}

func (p pki) write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p pki) file(name string) string { return filepath.Join(p.dir, name) }

// shown returns the common name of the certificate that the flags lead to, or
// the error output.
func shown(t *testing.T, args ...string) (string, int) {
	t.Helper()
	name := ""
	r := run(t, func(_ context.Context, a *Access) error {
		config, err := a.TLS()
		switch {
		case err != nil:
			return err
		case config == nil:
			name = "plain"
		default:
			name = config.Certificates[0].Leaf.Subject.CommonName
		}
		return nil
	}, args...)
	return name + r.stderr, r.code
}

func TestCertificates(t *testing.T) {
	both, one, none := newPKI(t, "etcdctl-etcd-client", "apiserver-etcd-client"), newPKI(t, "apiserver-etcd-client"),
		newPKI(t)
	bad := newPKI(t, "etcdctl-etcd-client")
	bad.write(t, "ca.crt", []byte("hello"))
	noKey := newPKI(t, "etcdctl-etcd-client")
	if err := os.Remove(noKey.file("etcdctl-etcd-client.key")); err != nil {
		t.Fatal(err)
	}
	noCA := newPKI(t, "etcdctl-etcd-client")
	if err := os.Remove(noCA.file("ca.crt")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		args []string
		want string
		code int
	}{
		{"etcdctl's", []string{"--certs-dir=" + both.dir}, "etcdctl-etcd-client", 0},
		{"the API server's", []string{"--certs-dir=" + one.dir}, "apiserver-etcd-client", 0},
		{"by file", []string{"--cacert=" + one.file("ca.crt"), "--cert=" + one.file("apiserver-etcd-client.crt"),
			"--key=" + one.file("apiserver-etcd-client.key")}, "apiserver-etcd-client", 0},
		{"not needed", []string{"--insecure"}, "plain", 0},
		{"not all three", []string{"--cacert=" + one.file("ca.crt")}, "given together", 2},
		{"none", []string{"--certs-dir=" + none.dir},
			"neither " + none.file("etcdctl-etcd-client.crt") + " nor " + none.file("apiserver-etcd-client.crt"), 1},
		{"no CA", []string{"--certs-dir=" + noCA.dir}, noCA.file("ca.crt") + ": no such file", 1},
		{"no key", []string{"--certs-dir=" + noKey.dir}, noKey.file("etcdctl-etcd-client.key") + ": no such file", 1},
		{"a CA that is none", []string{"--certs-dir=" + bad.dir}, "ca.crt has no certificate in PEM form", 1},
		{"a key of another", []string{
			"--cacert=" + one.file("ca.crt"), "--cert=" + one.file("apiserver-etcd-client.crt"),
			"--key=" + both.file("apiserver-etcd-client.key"),
		}, "are not a certificate and its key", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, code := shown(t, tc.args...)
			if code != tc.code || !strings.Contains(got, tc.want) {
				t.Errorf("it ends with %d and %s, want %d and %s", code, got, tc.code, tc.want)
			}
			if code == 1 && !strings.Contains(got, "hint: ") {
				t.Errorf("no hint: %s", got)
			}
		})
	}
}

// etcd runs an etcd with TLS from the directory, and returns its endpoint.
func etcd(t *testing.T, p pki) string {
	t.Helper()
	m := etcdtest.New(t, "a")
	m.SecureClients(etcdtest.Pair{Cert: p.file("server.crt"), Key: p.file("server.key"), CA: p.file("ca.crt")})
	m.Start(t, etcdtest.Binaries(t, etcdtest.V36))
	return m.ClientURL
}

// member asks for the members, and prints how many there are.
func member(ctx context.Context, a *Access) error {
	return a.Run(ctx, func(ctx context.Context, c *etcdclient.Client) error {
		list, err := c.Members(ctx)
		fmt.Fprintln(a.cmd.OutOrStdout(), len(list))
		return err
	})
}

func TestReachingARealEtcd(t *testing.T) {
	p := newPKI(t, "server", "etcdctl-etcd-client")
	up := etcd(t, p)
	down := "https://" + testport.Address(t)
	certs := "--certs-dir=" + p.dir
	testwait.Until(t, "etcd", func() bool { return run(t, member, certs, "--timeout=5s", "--endpoints="+up).code == 0 })
	t.Run("one that is down is left out", func(t *testing.T) {
		r := run(t, member, certs, "--endpoints="+down+","+up)
		if r.code != 0 || r.stdout != "1\n" || !strings.HasPrefix(r.stderr, "warning: "+down+": nothing listens there") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("one that hangs is not waited for", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		at := "https://" + l.Addr().String()
		note := "note: no answer yet from etcd at " + at + "; it is waited for 30s at most (--timeout)\n"
		testwait.For(t, "the other, which on a busy machine may be late once", func(context.Context) error {
			began := time.Now()
			r := run(t, member, certs, "--endpoints=https://"+l.Addr().String()+","+up)
			if r.code != 0 || !strings.Contains(r.stderr, "\nwarning: "+at) || time.Since(began) > 10*stragglerTimeout {
				return fmt.Errorf("after %s: %+v", time.Since(began), r)
			}
			if !strings.HasPrefix(r.stderr, note) || strings.Count(r.stderr, "note: ") != 1 {
				return fmt.Errorf("not one time %q in %+v", note, r)
			}
			return nil
		})
	})
	t.Run("a certificate of another CA", func(t *testing.T) {
		r := run(t, member, "--certs-dir="+newPKI(t, "etcdctl-etcd-client").dir, "--endpoints="+up)
		if r.code == 0 || !strings.Contains(r.stderr, up+": its certificate was issued by \"etcd\", which is not in") ||
			!strings.Contains(r.stderr, "hint: use the ca.crt") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("spoken to without TLS", func(t *testing.T) {
		r := run(t, member, "--endpoints="+strings.Replace(up, "https", "http", 1), "--timeout=3s")
		if r.code != 1 || !strings.Contains(r.stderr, "it expects TLS") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a certificate that etcd does not know", func(t *testing.T) {
		other := newPKI(t, "etcdctl-etcd-client")
		r := run(t, member, "--cacert="+p.file("ca.crt"), "--cert="+other.file("etcdctl-etcd-client.crt"),
			"--key="+other.file("etcdctl-etcd-client.key"), "--endpoints="+up)
		if r.code != 7 || !strings.Contains(r.stderr, "it rejects the client certificate") {
			t.Errorf("%+v", r)
		}
	})
}

func TestNobodyAnswers(t *testing.T) {
	a, b := testport.Address(t), testport.Address(t)
	r := run(t, member, "--insecure", "--endpoints="+a)
	if want := "error: etcd does not answer: http://" + a +
		": nothing listens there: connection refused\nhint: check there whether etcd runs"; r.code != 1 ||
		!strings.HasPrefix(r.stderr, want) {
		t.Errorf("%+v, want %s", r, want)
	}
	r = run(t, member, "--insecure", "--endpoints="+a+","+b)
	if r.code != 1 || !strings.Contains(r.stderr, "none of the endpoints answers: http://"+a+": nothing") ||
		!strings.Contains(r.stderr, "; http://"+b+": nothing") ||
		!strings.Contains(r.stderr, "hint: check there whether etcd runs") {
		t.Errorf("%+v", r)
	}
}

func TestAnEndpointThatHangsEndsInTime(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	testwait.InTime(t, "an endpoint that hangs", 30*time.Second, func() {
		r := run(t, member, "--insecure", "--endpoints="+l.Addr().String(), "--timeout=5s")
		if r.code != 1 || !strings.Contains(r.stderr,
			"http://"+l.Addr().String()+": it accepts connections but does not answer") {
			t.Errorf("%+v", r)
		}
	})
}

func TestErrorsOfCallsAreExplained(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{context.DeadlineExceeded, "nothing listens there"},
		{errors.New("disk full"), "disk full"},
	} {
		r := run(t, func(ctx context.Context, a *Access) error { return a.Explain(ctx, tc.err) }, "--insecure",
			"--endpoints="+testport.Address(t))
		if r.code != 1 || !strings.Contains(r.stderr, tc.want) {
			t.Errorf("%+v", r)
		}
	}
	// Flags that are wrong explain nothing.
	r := run(t, func(ctx context.Context, a *Access) error { return a.Explain(ctx, context.DeadlineExceeded) },
		"--endpoints=ftp://x")
	if !strings.Contains(r.stderr, "deadline") {
		t.Errorf("%+v", r)
	}
}

func TestACancelledObservation(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	r := run(t, func(_ context.Context, a *Access) error {
		_, err := a.Open(ctx)
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		return nil
	}, "--insecure", "--endpoints="+l.Addr().String())
	if r.code != 0 {
		t.Errorf("%+v", r)
	}
}

func TestWarningsAreOnOneLine(t *testing.T) {
	r := run(t, func(_ context.Context, a *Access) error {
		a.Warn("a\nb %s", "\x1b")
		a.Warn("a b %s", "\x1b") // the same again
		return nil
	})
	if r.stderr != "warning: a b \uFFFD\n" || r.stdout != "" {
		t.Errorf("%+v", r)
	}
}

func TestAtIsOneEndpoint(t *testing.T) {
	r := run(t, func(ctx context.Context, a *Access) error {
		c, err := a.At("http://" + testport.Address(t))
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, cancel := a.Limit(ctx)
		defer cancel()
		if d, ok := ctx.Deadline(); !ok || time.Until(d) > time.Second {
			t.Errorf("the deadline is %v", d)
		}
		return c.Healthy(ctx)
	}, "--insecure", "--timeout=100ms")
	if r.code != 1 {
		t.Errorf("%+v", r)
	}
	if r := run(t, func(_ context.Context, a *Access) error {
		_, err := a.At("https://x:1")
		return err
	}); !strings.Contains(r.stderr, "no client certificate for etcd") {
		t.Errorf("%+v", r)
	}
	var names []string
	cmd := &cobra.Command{Use: "x"}
	Add(cmd)
	for _, n := range []string{
		"endpoints", "certs-dir", "cacert", "cert", "key", "insecure", "timeout", "environment-dir",
	} {
		if cmd.PersistentFlags().Lookup(n) == nil {
			names = append(names, n)
		}
	}
	if slices.Sort(names); len(names) > 0 {
		t.Errorf("flags are missing: %v", names)
	}
}
