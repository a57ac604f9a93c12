package manager

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/coordination/discovery"
	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
)

// here is a cloud whose only volume is attached to this machine.
type here struct{ elsewhere }

func (here) Find(context.Context) ([]volumes.Volume, error) {
	return []volumes.Volume{{ID: "vol-1", Node: "node-1", MountName: "mount-1", Machine: "i-1", Here: true}}, nil
}

func (here) Address(context.Context) (string, error) { return "10.0.0.1", nil }

// What the daemon runs by with kops' command line for each cloud. The options are those with
// which the tests of each provider ask its cloud, through its SDK.
func TestKopsLineOfEachCloud(t *testing.T) {
	t.Setenv("AZURE_STORAGE_ACCOUNT", "account")
	for _, provider := range providers {
		t.Run(provider, func(t *testing.T) {
			line := volumestest.KopsLines[provider]
			var got volumes.Options
			before := volumes.Lookup(provider)
			volumes.Register(provider, func(_ context.Context, o volumes.Options) (volumes.Provider, error) {
				got = o
				return here{}, nil
			})
			defer volumes.Register(provider, before)
			args := append(slices.Clone(line.Flags), "--volume-provider="+provider, "--backup-store="+line.Store,
				"--client-urls=https://__name__:4001", "--cluster-name=etcd", "--containerized=true",
				"--dns-suffix=.internal.prod.example.com", "--grpc-port=3996", "--peer-urls=https://__name__:2380",
				"--quarantine-client-urls=https://__name__:3994", "--v=6")
			var f flags
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			f.add(fs)
			if err := fs.Parse(args); err != nil {
				t.Fatal(err)
			}
			f.mounting = func(h volumes.Host, v volumes.Volume) (string, error) {
				return h.Root + "/mnt/" + v.MountName, nil
			}
			log := slog.New(slog.DiscardHandler)
			c, err := f.config(t.Context(), os.Environ(), log)
			if err != nil {
				t.Fatal(err)
			}
			want := volumestest.KopsOptions(provider)
			want.Root, want.Log = "/rootfs", log
			if !reflect.DeepEqual(got, want) {
				t.Errorf("the provider is made of %+v, want %+v", got, want)
			}
			equal(t, "the name", c.NodeName, "node-1")
			equal(t, "the address", c.Address, "10.0.0.1")
			equal(t, "the data directory", c.DataDir, "/rootfs/mnt/mount-1")
			equal(t, "the store", c.BackupStore, line.Store)
			equal(t, "the suffix", c.DNSSuffix, "internal.prod.example.com")
			equal(t, "the hosts file", c.HostsFile, "/etc/hosts")
			equal(t, "the pause", c.DiscoveryInterval, time.Minute)
			equal(t, "what is on request", c.Policy.OnRequest, false)
			same(t, "peer URLs", c.PeerURLs, "https://__name__:2380")
			same(t, "client URLs", c.ClientURLs, "https://__name__:4001")
			same(t, "quarantine URLs", c.QuarantineURLs, "https://__name__:3994")
			seeds, err := c.Lookup(t.Context())
			wantSeeds := []discovery.Seed{
				{Name: "etcd-b", Address: "10.0.0.2:3996"}, {Name: "etcd-b", Address: "[fd00::2]:3996"},
			}
			if err != nil || fmt.Sprint(seeds) != fmt.Sprint(wantSeeds) {
				t.Errorf("the others are %v, %v", seeds, err)
			}
		})
	}
}
