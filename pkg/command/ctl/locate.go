package ctl

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/daemons"
	"github.com/etcdadm/etcdadm/pkg/store"
)

const (
	storeFlag = "backup-store"
	// oldStore is where the existing tool looks without a flag.
	oldStore = "/backups"
)

// locate says where the store is: by the flag, or the context that a flag names, else by
// the environment, else by the context that is the current one, else by the daemon that
// runs on this machine, else where the existing tool has it.
func (t *tool) locate() error {
	if t.located {
		return nil
	}
	flags := t.root.PersistentFlags()
	given, named := flags.Changed(storeFlag), flags.Changed(contextFlag)
	if given && named {
		return cli.Usagef("use only one of --%s and --%s", storeFlag, contextFlag)
	}
	if named && t.context == "" {
		return cli.Usagef("--%s has no name", contextFlag)
	}
	if !given {
		if err := t.choose(named); err != nil {
			return err
		}
	}
	t.located = true
	return nil
}

// choose takes the store that no --backup-store says.
func (t *tool) choose(named bool) error {
	if t.location = os.Getenv(storeVariable); t.location != "" && !named {
		return nil
	}
	if ok, err := t.locateByContext(); ok || err != nil {
		return err
	}
	return t.locateHere()
}

// where returns the location for a text, "" where there is none.
func (t *tool) where() string {
	if t.locate() != nil {
		return "" // whoever opens the store says so
	}
	return t.location
}

// locateHere takes the store of the daemon on this machine.
func (t *tool) locateHere() error {
	found, err := t.find()
	if err != nil {
		return cli.WithHint(err, "give --"+storeFlag)
	}
	slices.SortStableFunc(found, func(a, b daemons.Daemon) int { return strings.Compare(a.Store, b.Store) })
	found = slices.CompactFunc(found, func(a, b daemons.Daemon) bool { return a.Store == b.Store })
	switch {
	case len(found) == 0:
		if info, err := os.Stat(t.old); err == nil && info.IsDir() {
			t.location = t.old
			return nil
		}
		return &cli.UsageError{
			Text: "no store is given, and no etcd-manager runs on this machine that would show which it is",
			Next: "give --" + storeFlag + ", set " + storeVariable + " in the environment, or name the cluster once: " +
				"etcd-manager-ctl config set-context NAME --" + storeFlag + "=URL",
		}
	case len(found) > 1:
		return &cli.UsageError{Text: fmt.Sprintf("there are daemons of %d stores on this machine: %s", len(found), list(found)),
			Next: strings.Join(stores(found), "\n")}
	case found[0].Elsewhere:
		return &cli.UsageError{
			Text: fmt.Sprintf("the store of the daemon on this machine (%s) is %s, a directory that is another one "+
				"here, or none", found[0].Where(), store.Shown(found[0].Store)),
			Next: "give --" + storeFlag + " with the path that it has for this command",
		}
	}
	t.location = found[0].Store
	note(t.root, "the store is %s, that of the daemon on this machine (%s%s)", store.Shown(t.location), found[0].Where(),
		ofCluster(found[0]))
	return nil
}

// stores are the flags that choose the stores of daemons, one a line.
func stores(found []daemons.Daemon) (lines []string) {
	for _, d := range found {
		flag := store.Flag(d.Store)
		if flag == "" {
			flag = "--" + storeFlag + " with the location of " + store.Shown(d.Store)
		}
		lines = append(lines, "give "+flag)
	}
	return lines
}

// list names the stores of daemons.
func list(found []daemons.Daemon) string {
	words := make([]string, len(found))
	for i, d := range found {
		words[i] = fmt.Sprintf("%s (%s%s)", store.Shown(d.Store), d.Where(), ofCluster(d))
	}
	return strings.Join(words, ", ")
}

func ofCluster(d daemons.Daemon) string {
	if d.Cluster == "" {
		return ""
	}
	return ", cluster " + d.Cluster
}
