package existing

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The methods that a stand-in serves and calls.
const (
	ping         = "/privateapi.ClusterService/Ping"
	notification = "/privateapi.ClusterService/LeaderNotification"

	members     = "/etcd.EtcdManagerService/"
	getInfo     = members + "GetInfo"
	endpoints   = members + "UpdateEndpoints"
	join        = members + "JoinCluster"
	reconfigure = members + "Reconfigure"
	doBackup    = members + "DoBackup"
	doRestore   = members + "DoRestore"
	stopEtcd    = members + "StopEtcd"
)

// The phases of a [Join].
const (
	Prepare byte = 1 + iota
	InitialCluster
	JoinExisting
	CancelPrepare
)

// Info is what a daemon says of its machine.
type Info struct {
	Node      Node
	State     State
	DiskEmpty bool
}

// A Join has a machine run a member.
type Join struct {
	Phase          byte
	Token, Version string
	Nodes          []Node
}

// A Spec says how many members there are to be, and of which version.
type Spec struct {
	Count   int
	Version string
}

// A Machine is what a daemon does to its machine, for others with the leader's token.
type Machine interface {
	Info() Info
	// Hosts receives the members' addresses, by name.
	Hosts(addresses map[string]string)
	Join(j Join) error
	Reconfigure(version string, quarantined, enableTLS bool) error
	Backup(ctx context.Context, spec Spec) (name string, err error)
	Restore(ctx context.Context, backup string) error
	StopEtcd() error
}

// answer answers a call of the service for members.
func (d *Daemon) answer(ctx context.Context, method string, in []byte) (out []byte, err error) {
	m := d.o.Machine
	if m == nil && method != getInfo {
		return nil, status.Errorf(codes.Unimplemented, "the stand-in does not serve %s", method)
	}
	if method != getInfo && method != endpoints {
		if err := d.led(field(in, 1)); err != nil {
			return nil, err
		}
	}
	switch method {
	case getInfo:
		return d.info(), nil
	case endpoints:
		addresses := map[string]string{}
		for _, f := range fields(field(in, 1), 1) {
			addresses[string(field(f, 2))] = string(field(f, 3))
		}
		m.Hosts(addresses)
	case join:
		j := Join{Phase: number(in, 2), Token: string(field(in, 4)), Version: string(field(in, 7))}
		for _, n := range fields(in, 5) {
			j.Nodes = append(j.Nodes, decodeNode(n))
		}
		err = m.Join(j)
	case reconfigure:
		err = m.Reconfigure(string(field(in, 10)), isSet(in, 11), isSet(in, 12))
	case doBackup:
		spec := field(field(in, 10), 3)
		var name string
		name, err = m.Backup(ctx, Spec{Count: int(number(spec, 1)), Version: string(field(spec, 2))})
		out = text(nil, 1, name)
	case doRestore:
		err = m.Restore(ctx, string(field(in, 4)))
	case stopEtcd:
		err = m.StopEtcd()
	default:
		err = status.Errorf(codes.Unimplemented, "the stand-in does not serve %s", method)
	}
	return out, err
}

func (d *Daemon) info() []byte {
	if d.o.Machine == nil {
		return message(text(nil, 2, d.o.Cluster), 5, text(nil, 1, d.o.Name))
	}
	i := d.o.Machine.Info()
	b := message(text(nil, 2, d.o.Cluster), 5, i.Node.encode())
	if i.State.Token != "" {
		b = message(b, 6, i.State.encode())
	}
	return flag(b, 7, i.DiskEmpty)
}

// led says whether the header of a call is that of the leader accepted last.
func (d *Daemon) led(header []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.token == "" || string(field(header, 1)) != d.token || string(field(header, 2)) != d.o.Cluster {
		return fmt.Errorf("the caller is not the leader of %s that was accepted last", d.o.Cluster)
	}
	return nil
}

// A Leader is a daemon in a round that all healthy peers have acknowledged.
type Leader struct {
	// Acknowledged are their names, sorted; Token is that of its leadership.
	Acknowledged []string
	Token        string
	d            *Daemon
}

func (l Leader) call(ctx context.Context, name, method string, within time.Duration, rest []byte) ([]byte, error) {
	header := text(text(nil, 1, l.Token), 2, l.d.o.Cluster)
	return l.d.call(ctx, name, method, within, append(message(nil, 1, header), rest...))
}

// memberTime is how long a call that changes the membership may take; others may take as
// long as they do.
const memberTime = 10 * time.Second

// Info asks a daemon for its machine.
func (l Leader) Info(ctx context.Context, name string) (Info, error) {
	b, err := l.d.call(ctx, name, getInfo, 0, nil)
	return Info{Node: decodeNode(field(b, 5)), State: decodeState(field(b, 6)), DiskEmpty: isSet(b, 7)}, err
}

// Hosts sends a daemon where the members are: their addresses, by name.
func (l Leader) Hosts(ctx context.Context, name string, addresses map[string]string) error {
	var list []byte
	for host, address := range addresses {
		list = message(list, 1, text(text(text(nil, 1, host), 2, host), 3, address))
	}
	_, err := l.d.call(ctx, name, endpoints, 0, message(nil, 1, list))
	return err
}

// Join has a machine run a member.
func (l Leader) Join(ctx context.Context, name string, j Join) error {
	b := text(enum(nil, 2, j.Phase), 4, j.Token)
	for _, n := range j.Nodes {
		b = message(b, 5, n.encode())
	}
	_, err := l.call(ctx, name, join, memberTime, text(b, 7, j.Version))
	return err
}

// Reconfigure has a machine start its member again.
func (l Leader) Reconfigure(ctx context.Context, name, version string, quarantined, enableTLS bool) error {
	b := flag(flag(text(nil, 10, version), 11, quarantined), 12, enableTLS)
	_, err := l.call(ctx, name, reconfigure, 0, b)
	return err
}

// Backup has a machine take a backup.
func (l Leader) Backup(ctx context.Context, name string, spec Spec) error {
	info := message(nil, 3, text(enum(nil, 1, byte(spec.Count)), 2, spec.Version))
	_, err := l.call(ctx, name, doBackup, 0, message(nil, 10, info))
	return err
}

// Restore has a machine write a backup into the member that it runs.
func (l Leader) Restore(ctx context.Context, name, backup string) error {
	_, err := l.call(ctx, name, doRestore, 0, text(nil, 4, backup))
	return err
}

// StopEtcd has a machine set its member's data aside.
func (l Leader) StopEtcd(ctx context.Context, name string) error {
	_, err := l.call(ctx, name, stopEtcd, 0, nil)
	return err
}
