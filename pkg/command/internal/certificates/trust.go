package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// A trustCheck asks the members whether a step of a rotation may be done here:
// the files of this machine do not show whether another etcd was restarted.
type trustCheck struct {
	step      certs.RotationStep
	endpoints []string
	skip      bool
	timeout   time.Duration
}

func (c *trustCheck) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.endpoints, "endpoints", nil,
		"client `URLs` of the members to ask (default: all members of the cluster)")
	fs.BoolVar(&c.skip, "skip-trust-check", false, "do not ask the members whether they are ready")
	fs.DurationVar(&c.timeout, "timeout", 10*time.Second, "how long to wait for the members")
}

func (c *trustCheck) run(ctx context.Context, cfg machine.Config, warn io.Writer) error {
	if c.skip {
		return nil
	}
	dir := cfg.Paths.Certificates
	r, err := certs.CheckRotation(dir, time.Now())
	if err != nil {
		return err
	}
	if due(r.State) != string(c.step) {
		return nil // there is nothing to do, or it is refused
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	ask := c.endpoints
	if len(ask) == 0 {
		if ask, err = handHome(cfg).live(ctx); err != nil {
			return cli.WithHint(fmt.Errorf("find the members to ask whether they are ready: %w", err),
				"name them with --endpoints, or skip the check with --skip-trust-check")
		}
	}
	probe, err := certs.TrustProbe(dir, c.step, time.Now())
	if err != nil {
		return err
	}
	errs := make([]error, len(ask))
	var all sync.WaitGroup
	for i, endpoint := range ask {
		all.Go(func() { errs[i] = c.ask(ctx, endpoint, probe) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return cli.WithHint(err, c.hint())
	}
	fmt.Fprintf(warn, "ready: %s\n", cli.Plain(strings.Join(ask, ", ")))
	return nil
}

func (c *trustCheck) hint() string {
	first := "run etcdadm certs rotate-ca prepare on all machines, and restart etcd on each"
	if c.step == certs.StepFinish {
		first = "run etcdadm certs rotate-ca issue on all machines"
	}
	return first + "; if members are gone for good, name the others with --endpoints"
}

// ask makes a connection with the probe. In TLS 1.3 a server's refusal arrives
// after the handshake, so something has to be read.
func (c *trustCheck) ask(ctx context.Context, endpoint string, probe *tls.Config) error {
	transport := &http.Transport{TLSClientConfig: probe, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(endpoint, "/")+"/version", nil)
	if err != nil {
		return fmt.Errorf("%s: %w", endpoint, err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err == nil {
		return resp.Body.Close()
	}
	var unknown x509.UnknownAuthorityError
	var op *net.OpError
	switch {
	case errors.As(err, &unknown) && c.step == certs.StepFinish:
		return fmt.Errorf("%s still has a certificate of the old authority", endpoint)
	case errors.As(err, &unknown):
		return fmt.Errorf("%s has a certificate of an authority that is neither the old nor the new one", endpoint)
	case errors.As(err, &op) && op.Op == "remote error":
		return fmt.Errorf("%s does not trust the new authority: %w", endpoint, op.Err)
	}
	return fmt.Errorf("%s does not answer: %w", endpoint, cause(err))
}

// cause takes the method and URL off an error of net/http.
func cause(err error) error {
	var u interface{ Unwrap() error }
	if errors.As(err, &u) && u.Unwrap() != nil {
		return u.Unwrap()
	}
	return err
}
