package certificates

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
)

// errNoEndpoint says that nothing on the machine shows where etcd is.
var errNoEndpoint = errors.New("no file on this machine says where etcd is")

// known returns the client URLs that the machine's etcd was given: its own, and
// those of the members that it was started with.
func known(cfg machine.Config) ([]string, error) {
	vars, err := operate.Variables(cfg)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", errNoEndpoint, err)
	}
	if err != nil {
		return nil, err
	}
	list := machine.Endpoints(vars)
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: it has no ETCD_ADVERTISE_CLIENT_URLS", errNoEndpoint)
	}
	return list, nil
}

// live asks one of the known members for the client URLs of all.
func (h home) live(ctx context.Context) ([]string, error) {
	seeds, err := h.known()
	if err != nil {
		return nil, err
	}
	config, err := h.tls(time.Now())
	if err != nil {
		return nil, err
	}
	client, err := etcdclient.Open(etcdclient.Options{Endpoints: seeds, TLS: config})
	if err != nil {
		return nil, err
	}
	members, err := client.Members(ctx)
	if err = errors.Join(err, client.Close()); err != nil {
		return nil, etcdclient.Explain(ctx, seeds[0], config, err)
	}
	var list []string
	for _, m := range members {
		if len(m.ClientURLs) > 0 { // none: it was added and never started
			list = append(list, m.ClientURLs[0])
		}
	}
	slices.Sort(list)
	return list, nil
}

// found returns the endpoints of the cluster, or else those that the machine
// knows of.
func (h home) found(cmd *cobra.Command, timeout time.Duration) ([]string, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	list, err := h.live(ctx)
	if err == nil {
		return list, nil
	}
	if errors.Is(err, errNoEndpoint) {
		return nil, err
	}
	list, kerr := h.known()
	if kerr != nil {
		return nil, kerr
	}
	from := "this machine's files"
	if h.daemon != nil {
		from = "the daemon's command line"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "warning: the cluster does not answer (%s); the endpoints are those in %s\n",
		cli.Plain(err.Error()), from)
	return list, nil
}
