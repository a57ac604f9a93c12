// Package volumes gets a node its disk: it finds the cloud's volume that
// belongs to the node, attaches it, and mounts it on the host and in the
// container. Each cloud is a [Provider] in a package below this one, which
// knows names, tags and calls and nothing else.
package volumes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// A Volume is one disk of a cloud.
type Volume struct {
	// ID is the cloud's name of it.
	ID string
	// UID distinguishes it from a later volume with the same ID, in clouds where there can
	// be one.
	UID string
	// Node is the name of the node whose disk it is.
	Node string
	// MountName is the last part of its mount point.
	MountName string
	// Machine is the machine that it is attached to, empty where it is free.
	Machine string
	// Here says that Machine is this one.
	Here bool
	// Busy says why it cannot be attached although it is attached to no machine, as
	// "is being attached".
	Busy string
	// Moving says that it is on its way to this machine or from it: no other one
	// is attached before that is over. Foreign says that it is busy and not on its
	// way to this machine, whatever was asked for. Neither is set where the cloud
	// does not report.
	Moving, Foreign bool
	// Devices are the paths on the host at which the device may appear, the
	// best one first. They are known once the volume is attached here.
	Devices []string
	// Rescan says that a device may not appear unless the host is made to look.
	Rescan bool
}

// A Node is a machine that has a volume of the cluster.
type Node struct {
	// Name is the node's name.
	Name string
	// Addresses are the machine's IP addresses, the best one first.
	Addresses []string
}

// A Provider is a cloud.
type Provider interface {
	// Find returns the cluster's volumes that this machine may use.
	Find(ctx context.Context) ([]Volume, error)
	// Attach attaches a free volume to this machine and returns it with its
	// devices. The error is [ErrTaken] where another machine was faster, and
	// [ErrRefused] where it is certain that the volume is not on its way here.
	Attach(ctx context.Context, v Volume) (Volume, error)
	// Address returns this machine's address.
	Address(ctx context.Context) (string, error)
	// Nodes returns the machines that have volumes of the cluster, wherever they
	// are. A machine that is gone is left out; one that cannot be asked for now is
	// an error, since a shorter list would be taken for all of them.
	Nodes(ctx context.Context) ([]Node, error)
}

// ErrTaken says that another machine has the volume now.
var ErrTaken = errors.New("the volume is attached to another machine now")

// ErrRefused says that the cloud does not attach the volume to this machine,
// neither now nor later: another one may be attached.
var ErrRefused = errors.New("the cloud does not attach it to this machine")

// Options are what a provider is made of.
type Options struct {
	// ClusterName is the etcd cluster's name.
	ClusterName string
	// Tags and NameTag are the values of --volume-tag and --volume-name-tag.
	Tags    []string
	NameTag string
	// NetworkCIDR is the value of --network-cidr, for OpenStack.
	NetworkCIDR string
	// Root is where the host's file system is, / without a container.
	Root string
	// Log receives what a person should know.
	Log *slog.Logger
}

// A Factory makes a provider. It asks nobody: what is wrong with flags and
// environment is an error at once, and a cloud that does not answer is not.
type Factory func(ctx context.Context, o Options) (Provider, error)

var (
	factoriesLock sync.Mutex
	factories     = map[string]Factory{}
)

// Register makes a cloud known under the name that --volume-provider has for
// it. A program has the clouds of the package clouds where it imports that.
func Register(name string, f Factory) {
	factoriesLock.Lock()
	defer factoriesLock.Unlock()
	factories[name] = f
}

// Lookup returns the factory of a cloud, nil where it is not linked.
func Lookup(name string) Factory {
	factoriesLock.Lock()
	defer factoriesLock.Unlock()
	return factories[name]
}

const (
	// firstPause and maxPause bound the time between two tries while all is
	// well and no volume is free: a machine that is replaced keeps its volume
	// for a while, and whoever waits is missing in the quorum.
	firstPause = time.Second
	maxPause   = 5 * time.Second
	// maxRetryPause bounds the time between two tries while the cloud refuses.
	maxRetryPause = 30 * time.Second
	// callLimit bounds one question to the cloud, attachLimit one attachment.
	callLimit   = 30 * time.Second
	attachLimit = 2 * time.Minute
)

// Acquire returns the one volume that is attached to this machine. It attaches
// one where none is, and waits while none is free. Waiting is called with what
// is waited for whenever that changes, and with "" at the end.
func Acquire(ctx context.Context, p Provider, log *slog.Logger, waiting func(why string)) (Volume, error) {
	a := &acquisition{p: p, log: log, waiting: waiting}
	defer waiting("")
	pause := firstPause
	for {
		v, err := a.try(ctx)
		if err == nil {
			return v, nil
		}
		if ctx.Err() != nil {
			return Volume{}, context.Cause(ctx)
		}
		var none *noneFree
		limit := maxRetryPause
		if errors.As(err, &none) {
			limit = maxPause
		}
		a.report(err.Error())
		pause = min(pause, limit)
		// Machines that start together do not ask together.
		jitter := pause/2 + rand.N(pause)
		if err := wait.For(ctx, jitter); err != nil {
			return Volume{}, err
		}
		pause *= 2
	}
}

// An acquisition is the state of [Acquire].
type acquisition struct {
	p        Provider
	log      *slog.Logger
	waiting  func(string)
	reported string
	// doubtful is the volume whose attachment ended in an error: it may have
	// been attached, so no other one is before the cloud says that it was not.
	doubtful string
}

// noneFree says that there is no volume for this machine at present.
type noneFree struct{ text string }

func (e *noneFree) Error() string { return e.text }

func (a *acquisition) report(why string) {
	if why == a.reported {
		return
	}
	a.reported = why
	a.log.Warn("waiting for a volume", "why", why)
	a.waiting(why)
}

// try asks once, and attaches where nothing is attached yet.
func (a *acquisition) try(ctx context.Context) (Volume, error) {
	short, cancel := context.WithTimeout(ctx, callLimit)
	found, err := a.p.Find(short)
	cancel()
	if err != nil {
		return Volume{}, fmt.Errorf("look for volumes: %w", err)
	}
	slices.SortFunc(found, func(x, y Volume) int {
		return strings.Compare(x.Node+"\x00"+x.ID, y.Node+"\x00"+y.ID)
	})
	if v, ok := a.attached(found); ok {
		return v, nil
	}
	for _, v := range found {
		// What was asked for may be on its way to this machine, also where it was
		// asked for before this program began.
		if v.Moving || v.Busy != "" && v.ID == a.doubtful && !v.Foreign {
			return Volume{}, &noneFree{describe([]Volume{v})}
		}
	}
	free := slices.DeleteFunc(slices.Clone(found), func(v Volume) bool { return v.Machine != "" || v.Busy != "" })
	// The doubtful one first: if it was attached after all, asking again says so.
	slices.SortStableFunc(free, func(x, y Volume) int { return a.rank(x) - a.rank(y) })
	var refused error
	for _, v := range free {
		got, err := a.attach(ctx, v)
		switch {
		case err == nil:
			return got, nil
		case errors.Is(err, ErrTaken):
			a.log.Info("another machine was faster", "volume", v.ID)
		case errors.Is(err, ErrRefused):
			a.log.Warn("a volume is not attached", "volume", v.ID, "why", err)
			refused = cmp.Or(refused, fmt.Errorf("attach volume %s: %w", v.ID, err))
		default:
			a.doubtful = v.ID
			return Volume{}, fmt.Errorf("attach volume %s: %w", v.ID, err)
		}
	}
	a.doubtful = ""
	return Volume{}, cmp.Or(refused, error(&noneFree{describe(found)}))
}

func (a *acquisition) rank(v Volume) int {
	if v.ID == a.doubtful {
		return 0
	}
	return 1
}

// attached returns the volume that is attached here. Of several it is the same
// one each time.
func (a *acquisition) attached(found []Volume) (Volume, bool) {
	here := slices.DeleteFunc(slices.Clone(found), func(v Volume) bool { return !v.Here })
	if len(here) == 0 {
		return Volume{}, false
	}
	if len(here) > 1 {
		a.log.Warn("several volumes are attached to this machine; one is used, detach the others",
			"used", here[0].ID, "other", here[1].ID)
	}
	return here[0], true
}

func (a *acquisition) attach(ctx context.Context, v Volume) (Volume, error) {
	ctx, cancel := context.WithTimeout(ctx, attachLimit)
	defer cancel()
	a.log.Info("attach volume", "volume", v.ID, "node", v.Node)
	return a.p.Attach(ctx, v)
}

// describe says why none of the volumes can be used.
func describe(found []Volume) string {
	if len(found) == 0 {
		return "this machine can reach no volume with the tags of --volume-tag; make one, or correct the tags"
	}
	var at []string
	for _, v := range found {
		at = append(at, v.ID+" "+cmp.Or(v.Busy, "is attached to "+cmp.Or(v.Machine, "another machine")))
	}
	return "no volume is free: " + strings.Join(at, ", ") + "; it is used as soon as it is free"
}
