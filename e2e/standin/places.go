package standin

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	_ "github.com/etcdadm/etcdadm/pkg/host/volumes/clouds" // for volumes.Lookup
)

// Places are where daemons are: what the flags say, or what the cloud says.
type places struct {
	cloud volumes.Provider // nil for none
	port  int
	every time.Duration

	mu sync.Mutex
	at map[string]string // name to address
}

// known returns the addresses of all daemons, by name.
func (p *places) known() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.at)
}

// watch asks the cloud again and again, and calls found after each time.
func (p *places) watch(ctx context.Context, found func()) {
	for p.cloud != nil && ctx.Err() == nil {
		if err := p.observe(ctx); err != nil {
			log.Printf("look for other machines: %v", err)
		} else {
			found()
		}
		select {
		case <-ctx.Done():
		case <-time.After(p.every):
		}
	}
}

func (p *places) observe(ctx context.Context) error {
	nodes, err := p.cloud.Nodes(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range nodes {
		p.at[n.Name] = net.JoinHostPort(n.Addresses[0], strconv.Itoa(p.port))
	}
	return nil
}

// mount gets the machine its volume, which says who it is. How the existing one asks a cloud
// and mounts is not what is tested with a stand-in: this project's code does it.
func (o *options) mount(ctx context.Context) error {
	quiet := slog.New(slog.DiscardHandler)
	host := volumes.Host{Root: "/rootfs"}
	p, err := volumes.Lookup("aws")(ctx, volumes.Options{
		ClusterName: o.cluster, Tags: o.volumeTags, NameTag: o.volumeNameTag, Root: host.Root, Log: quiet,
	})
	if err != nil {
		return err
	}
	waiting := func(why string) { log.Print(why) }
	if o.address, err = volumes.Retry(ctx, quiet, waiting, p.Address); err != nil {
		return err
	}
	v, err := volumes.Acquire(ctx, p, quiet, waiting)
	if err != nil {
		return err
	}
	if o.data, err = host.Mount(ctx, v, quiet, waiting); err != nil {
		return fmt.Errorf("mount %s: %w", v.ID, err)
	}
	o.name, o.places.cloud = v.Node, p
	return nil
}

// OnHost becomes a command of the host, where the process was started for that. It returns
// where it was not, and with an error where that failed.
func OnHost() error {
	if len(os.Args) > 1 && os.Args[1] == volumes.HostExecCommand {
		return volumes.HostExec(os.Args[2:])
	}
	return nil
}
