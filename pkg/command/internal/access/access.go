// Package access is how commands reach an etcd that is run by hand: its
// endpoints and the certificates for it, from flags and from what is on the
// machine.
package access

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/daemons"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// An Access holds the flags with which a command reaches etcd.
type Access struct {
	// Timeout is how long etcd may take for a first answer, and for each call that
	// is quick by nature.
	Timeout time.Duration
	// Certs is the directory of the key pairs.
	Certs string
	// Environment is the directory of etcd.env.
	Environment string

	cmd               *cobra.Command
	endpoints         []string
	caCert, cert, key string
	insecure          bool
	// reported are the warnings that were printed.
	reported map[string]bool
	// find finds the daemons on this machine, local is the one that is asked.
	find  func() ([]daemons.Daemon, error)
	local *local
}

// Add gives cmd, and the commands below it, the flags.
func Add(cmd *cobra.Command) *Access {
	a := &Access{cmd: cmd, find: daemons.Find}
	paths := machine.Defaults().Paths
	fs := cmd.PersistentFlags()
	fs.StringSliceVar(&a.endpoints, "endpoints", nil,
		"client `URLs` or host:port of etcd; default: what etcd.env advertises, the etcd of the daemon on this machine, "+
			"or https://127.0.0.1:2379")
	fs.StringVar(&a.Certs, "certs-dir", paths.Certificates, "`directory` with ca.crt and a client's certificate and key")
	fs.StringVar(&a.caCert, "cacert", "", "`file` with the CA of etcd's servers, in place of --certs-dir")
	fs.StringVar(&a.cert, "cert", "", "`file` with the client's certificate, in place of --certs-dir")
	fs.StringVar(&a.key, "key", "", "`file` with the client's key, in place of --certs-dir")
	fs.BoolVar(&a.insecure, "insecure", false, "use http, without certificates")
	fs.DurationVar(&a.Timeout, "timeout", 30*time.Second, "how long to wait for etcd")
	fs.StringVar(&a.Environment, "environment-dir", paths.Environment, "`directory` of etcd.env")
	cli.Chooses(fs, "etcd", "endpoints", "certs-dir", "cacert", "cert", "key", "insecure", "environment-dir")
	return a
}

// variables are flags that the commands on the machine have too, and read from
// the environment under the same names.
var variables = map[string]string{
	"endpoints": "ETCDADM_ENDPOINTS", "certs-dir": "ETCDADM_CERTS_DIR", "environment-dir": "ETCDADM_ENVIRONMENT_DIR",
}

// environment takes from the environment what no flag says.
func (a *Access) environment() error {
	if a.cmd == nil {
		return nil
	}
	fs := a.cmd.PersistentFlags()
	for name, variable := range variables {
		text := os.Getenv(variable)
		if f := fs.Lookup(name); text == "" || f == nil || f.Changed {
			continue
		}
		if err := cli.Fill(fs, name, text); err != nil {
			return cli.Usagef("%s: %v", variable, err)
		}
	}
	return nil
}

// At returns a client of the given endpoints, and of no others. It does not
// connect yet.
func (a *Access) At(endpoints ...string) (*etcdclient.Client, error) {
	config, err := a.TLS()
	if err != nil {
		return nil, err
	}
	return etcdclient.Open(etcdclient.Options{Endpoints: endpoints, TLS: config})
}

// Reach returns those of the endpoints that answer, voters before learners.
// When none answers within --timeout the error explains why, for each one;
// otherwise a warning does, on the command's error output.
func (a *Access) Reach(ctx context.Context) ([]string, error) {
	voters, learners, err := a.reach(ctx)
	return append(voters, learners...), err
}

// Open returns a client of the voters that answer, as [Access.Reach] does. Only
// where there are none it is one of learners, which serve little more than
// their own status.
func (a *Access) Open(ctx context.Context) (*etcdclient.Client, error) {
	voters, learners, err := a.reach(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(voters) == 0:
		return a.At(learners...)
	}
	return a.At(voters...)
}

// Run opens a client for f and closes it. The context of f ends at --timeout;
// where f fails because no answer came, the error says why.
func (a *Access) Run(ctx context.Context, f func(ctx context.Context, c *etcdclient.Client) error) error {
	return a.Use(ctx, func(ctx context.Context, c *etcdclient.Client) error {
		ctx, cancel := a.Limit(ctx)
		defer cancel()
		defer a.Asked("")()
		return f(ctx, c)
	})
}

// Use is Run for what may take long: the context of f has no deadline of its
// own.
func (a *Access) Use(ctx context.Context, f func(ctx context.Context, c *etcdclient.Client) error) error {
	c, err := a.Open(ctx)
	if err != nil {
		return err
	}
	err = f(ctx, c)
	// What is asked has been answered; a connection that closes badly changes
	// nothing.
	_ = c.Close()
	return a.Explain(ctx, err)
}

// Limit returns ctx with --timeout as its deadline, for one call.
func (a *Access) Limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.Timeout)
}

// notForLearners is how etcd refuses what only a voter can do.
var notForLearners = rpctypes.ErrorDesc(rpctypes.ErrGRPCNotSupportedForLearner)

// Explain says why there was no answer, if err is that there was none: of the
// first of the endpoints about which there is something to say.
func (a *Access) Explain(ctx context.Context, err error) error {
	if err != nil && strings.Contains(err.Error(), notForLearners) {
		return cli.WithHint(err, "only a learner answers, and it cannot answer what is needed: name a voter in --endpoints")
	}
	if !etcdclient.Unanswered(err) {
		return err
	}
	endpoints, eerr := a.Endpoints()
	config, terr := a.TLS()
	if eerr != nil || terr != nil || len(endpoints) == 0 {
		return err
	}
	return etcdclient.Explain(ctx, endpoints[0], config, err)
}

// Warn prints a warning to the command's error output, each one once.
func (a *Access) Warn(format string, args ...any) {
	text := cli.Plain(fmt.Sprintf(format, args...))
	if a.reported[text] {
		return
	}
	if a.reported == nil {
		a.reported = map[string]bool{}
	}
	a.reported[text] = true
	fmt.Fprintf(a.cmd.ErrOrStderr(), "warning: %s\n", text)
}

// TLS returns the configuration for etcd's servers, nil where all endpoints are
// plain http. The error says which file is missing or cannot be used.
func (a *Access) TLS() (*tls.Config, error) {
	endpoints, err := a.Endpoints()
	if err != nil || !isTLS(endpoints) {
		return nil, err
	}
	if a.local != nil {
		return a.local.tls()
	}
	f, err := a.files()
	if err != nil {
		return nil, err
	}
	return f.load()
}
