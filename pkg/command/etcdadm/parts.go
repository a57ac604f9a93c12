package etcdadm

import (
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/command/docs"
	"github.com/etcdadm/etcdadm/pkg/command/internal/auto"
	"github.com/etcdadm/etcdadm/pkg/command/internal/certificates"
	"github.com/etcdadm/etcdadm/pkg/command/internal/client"
	"github.com/etcdadm/etcdadm/pkg/command/internal/config"
	"github.com/etcdadm/etcdadm/pkg/command/internal/handovers"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machines"
	"github.com/etcdadm/etcdadm/pkg/command/internal/manifest"
	"github.com/etcdadm/etcdadm/pkg/command/internal/migrations"
	"github.com/etcdadm/etcdadm/pkg/command/internal/release"
	"github.com/etcdadm/etcdadm/pkg/command/internal/term"
	"github.com/etcdadm/etcdadm/pkg/command/run"
	"github.com/etcdadm/etcdadm/pkg/daemon"
)

// Parts returns the commands that need no daemon.
func Parts() []*cobra.Command {
	return slices.Concat(
		group("machine",
			machines.NewInit(program), machines.NewJoin(program), machines.NewReset(program), machines.NewRemove(),
			machines.NewInfo(), machines.NewPreflight(), machines.NewUpgrade(),
			certificates.New(), certificates.NewKubeadm(), config.New(), release.New(), run.New(),
			handovers.New(program), migrations.New(),
		),
		group("etcd", client.New()...),
		group("auto", auto.NewSeed(), auto.New(daemon.Run), manifest.New()),
		group("seldom", term.New(), docs.New("etcdadm")),
	)
}

// program is how this program is called to supervise etcd.
func program() ([]string, error) {
	path, err := os.Executable()
	return []string{path, "run"}, err
}

// group puts commands into a group of the help.
func group(id string, list ...*cobra.Command) []*cobra.Command {
	for _, c := range list {
		c.GroupID = id
	}
	return list
}
