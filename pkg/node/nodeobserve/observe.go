package nodeobserve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// The question to the node's own etcd has a deadline, so that one that hangs
// does not make the whole node seem unreachable. A process that has just started
// does not answer before it has found its peers; it is not waited for.
const (
	// ReportTimeout is for one that has run for a while.
	ReportTimeout   = time.Second
	startingTimeout = 100 * time.Millisecond
	startingAge     = 5 * time.Second
)

// Observe returns what is seen of the node, and changes nothing. The report is nil where no
// etcd answers. It takes no lock that an operation holds: a long backup does not keep anyone
// from observing. Nor does a disk that hangs: then it reports what was last read of it, with
// how the disk does now.
func (o *Observer) Observe(ctx context.Context) (Facts, *cluster.Report) {
	f := o.disk(ctx)
	n, s := &f.Node, f.State
	n.Storage = o.storage(n.Storage)
	n.Differs = cmp.Or(Differs(s), o.opts.Progress.Disputes())
	status := o.opts.Status()
	n.Comparing = status.State == cluster.ProcessRunning && o.opts.Progress.Compares(status.PID)
	n.Process = cluster.Process{
		State: status.State, Since: status.Since, LastExit: status.LastExit, Problem: status.Problem,
	}
	if s.Assigned != nil && status.State != cluster.ProcessStopped {
		n.Serving, _ = o.Serving()
		n.PeerKeys = o.files.Load() != nil
		n.Process.Version = s.Assigned.Version
	}
	if status.State == cluster.ProcessCrashing {
		n.Process.LastLines = status.LastLines
	}
	if s.Assigned == nil || status.State != cluster.ProcessRunning {
		return f, nil
	}
	young := o.opts.Now().Sub(status.Since) < startingAge
	asking, cancel := context.WithTimeout(ctx, o.timeout(ctx, young))
	defer cancel()
	r, err := o.report(asking, s, n)
	if err != nil && (!young || etcdclient.Denied(err)) { // a denial is no matter of time
		n.Process.NoReport = o.noReport(ctx, s, err)
	}
	if err == nil && r.Denied != "" {
		n.Process.NoReport = o.denied(s, r.Denied)
	}
	if err != nil {
		return f, r
	}
	n.Links = o.links.of(ctx, r.ID, r.Members, o.opts.Now(), o.tryPeer)
	if !r.Learner && r.Read == cluster.ReadServed {
		n.Process.NoRoot = o.noRoot(ctx, s)
	}
	return f, r
}

// read reads what the node has on its disks. It may take as long as they do.
func (o *Observer) read(ctx context.Context) Facts {
	s := o.opts.State()
	disk := nodestate.Disk(o.opts.DataDir, s)
	n := cluster.Node{
		Name: o.opts.Name, URLs: o.opts.URLs,
		Disk: disk, Prepared: s.Prepared, Assigned: s.Assigned, LeaseVoters: s.LeaseVoters,
		Change: s.Changing(),
		Staged: o.opts.Progress.Staging(s.Staged), Revision: s.Revision,
	}
	n.Versions, n.Broken = o.binaries.of(ctx, o.opts.Bin, o.opts.Now())
	n.Broken = append(n.Broken, o.opts.Progress.Fetches()...)
	n.Lost = o.lostSettings(s, n.Versions)
	n.NewCluster = nodestate.AsksForCluster(o.opts.DataDir)
	n.OldLog = o.oldLog(s)
	// Space and hosts are for people and for bounded upkeep: an error there is
	// an unknown, not a failed observation.
	if free, err := hostfs.FreeBytes(o.opts.DataDir); err == nil {
		n.FreeBytes = max(free, 1) // zero is: not known
	}
	n.SetAside = o.sizes.fill(o.opts.DataDir, o.opts.Now())
	n.Hazards = o.withProgress(o.hazards.of(o.opts.DataDir, s, disk, o.opts.Now(), o.opts.Examine))
	begun := s.Bootstrapping() && disk.State == cluster.DiskData && o.begun(disk.Token)
	return Facts{Node: n, State: s, Begun: begun}
}

// timeout is how long the node's own etcd is waited for: less than whoever
// asks the node waits for the node.
func (o *Observer) timeout(ctx context.Context, young bool) time.Duration {
	wait := ReportTimeout
	if young {
		wait = startingTimeout
	}
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)/2)
	}
	return wait
}

// begun says whether the member of an incarnation has committed anything. What
// cannot be read has begun: it must not be taken for nothing.
func (o *Observer) begun(token cluster.Token) bool {
	begun, err := nodestate.Begun(nodestate.DataDir(o.opts.DataDir, token))
	return begun || err != nil
}

// report asks the node's own etcd. Without a report it says why.
func (o *Observer) report(ctx context.Context, s nodestate.State, n *cluster.Node) (*cluster.Report, error) {
	c, err := o.Etcd(s)
	if err != nil {
		return nil, err
	}
	r, err := o.selfReport(ctx, c, s)
	if err != nil {
		return nil, err
	}
	if err := ours(n.Disk, s, r); err != nil {
		n.Process.Problem = err.Error()
		return nil, &foreignError{err}
	}
	if n.Differs != "" && !slices.Contains(r.Alarms, etcdclient.Corrupt) {
		// Nobody may build on it, nor back it up.
		r.Alarms = append(r.Alarms, etcdclient.Corrupt)
	}
	return &r, nil
}

// selfReport asks the node's own etcd about itself. What it does not say of the cluster version at
// its client port it is asked for at its peer port: where etcd serves HTTP for clients at a
// port of its own (ETCD_LISTEN_CLIENT_HTTP_URLS), the other one is for gRPC only.
func (o *Observer) selfReport(ctx context.Context, c *etcdclient.Client, s nodestate.State) (cluster.Report, error) {
	r, err := c.Report(ctx)
	if err != nil || !r.Cluster.IsZero() {
		return r, err
	}
	p, err := o.peer()
	if err != nil {
		return r, nil // it stays unknown
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(ctx, reasonTime)
	defer cancel()
	_ = anyURL(o.Served(s).Peer, func(u string) error { // it stays unknown
		v, err := p.Versions(ctx, u)
		r.Cluster = v.Cluster
		return err
	})
	return r, nil
}

// A foreignError says that what answers is not the node's own member.
type foreignError struct{ error }

// reasonTime is how long the reason for no report is looked for.
const reasonTime = 300 * time.Millisecond

// noReport says why the node's etcd gave no report.
func (o *Observer) noReport(ctx context.Context, s nodestate.State, err error) *cluster.NoReport {
	why := &cluster.NoReport{Cause: cluster.CauseForeign, Text: err.Error()}
	config := o.ownTLS(s)
	why.User = clientName(config)
	var foreign *foreignError
	endpoint, urlErr := o.endpoint(s)
	if !errors.As(err, &foreign) && urlErr == nil {
		ctx, cancel := context.WithTimeout(ctx, reasonTime)
		defer cancel()
		why.Cause, why.Text = etcdclient.Reason(ctx, endpoint, config, err)
	}
	return why
}

// denied is the report on an etcd that answers, and lets the daemon read nothing. So it
// gives it no snapshot either, which is seen here and not by a backup that fails.
func (o *Observer) denied(s nodestate.State, text string) *cluster.NoReport {
	return &cluster.NoReport{
		Cause: cluster.CauseAuth, Text: "etcd denies access: " + text, User: clientName(o.ownTLS(s)),
	}
}

// clientTLS returns how the daemon calls members that have TLS, nil where it has no keys.
func (o *Observer) clientTLS() *tls.Config {
	if o.opts.TLS == nil {
		return nil
	}
	return o.opts.TLS.Client()
}

// ownTLS returns how the daemon calls its own etcd, nil for plain HTTP: it may have keys,
// and etcd take it for nobody.
func (o *Observer) ownTLS(s nodestate.State) *tls.Config {
	if endpoint, err := o.endpoint(s); err != nil || !cluster.SecureURLs([]string{endpoint}) {
		return nil
	}
	return o.clientTLS()
}

// clientName returns the common name of the certificate that a client shows,
// which is the user that etcd takes it for.
func clientName(c *tls.Config) string {
	if leaf := etcdclient.Shown(c); leaf != nil {
		return leaf.Subject.CommonName
	}
	return ""
}

// Foreign says why what reports cannot be the node's own member, nil where it is.
func (o *Observer) Foreign(s nodestate.State, r cluster.Report) error {
	return ours(nodestate.Disk(o.opts.DataDir, s), s, r)
}

// ours reports why what answers at the member's URL cannot be the member whose
// data is on the disk: another etcd may sit on its port while ours fails to
// start, and what that one says of its cluster must not be taken for ours.
func ours(disk cluster.Disk, s nodestate.State, r cluster.Report) error {
	switch {
	case disk.State != cluster.DiskData || disk.Token != s.Assigned.Token:
		return fmt.Errorf("member %s of cluster %s answers at this node's client URL, but the disk has no data of it", r.ID,
			r.ClusterID)
	case disk.MemberID != 0 && disk.MemberID != r.ID:
		return fmt.Errorf("member %s of cluster %s answers at this node's client URL, the data on the disk is of %s", r.ID,
			r.ClusterID, disk.MemberID)
	case s.MemberToken == s.Assigned.Token && s.ClusterID != 0 && s.ClusterID != r.ClusterID:
		return fmt.Errorf("a member of cluster %s answers at this node's client URL, the data on the disk is of cluster %s",
			r.ClusterID, s.ClusterID)
	}
	return nil
}

// Etcd returns the kept connection to the node's own etcd.
func (o *Observer) Etcd(s nodestate.State) (*etcdclient.Client, error) {
	endpoint, err := o.endpoint(s)
	if err != nil {
		return nil, err
	}
	o.clientMu.Lock()
	defer o.clientMu.Unlock()
	if o.client != nil && o.clientTo == endpoint {
		return o.client, nil
	}
	if o.client != nil {
		_ = o.client.Close()
		o.client = nil
	}
	c, err := etcdclient.Open(o.clientOptions(endpoint, s))
	if err != nil {
		return nil, err
	}
	o.client, o.clientTo = c, endpoint
	return c, nil
}

// ClientOptions are those of a client of the node's own etcd.
func (o *Observer) ClientOptions(s nodestate.State) (etcdclient.Options, error) {
	endpoint, err := o.endpoint(s)
	return o.clientOptions(endpoint, s), err
}

func (o *Observer) clientOptions(endpoint string, s nodestate.State) etcdclient.Options {
	return etcdclient.Options{Endpoints: []string{endpoint}, TLS: o.ownTLS(s)}
}

// endpoint returns where the node's own etcd serves.
func (o *Observer) endpoint(s nodestate.State) (string, error) {
	urls := o.opts.URLs.Client
	if s.Assigned.Quarantined {
		urls = o.opts.URLs.Quarantine
	}
	if len(urls) == 0 {
		return "", Refuse("the node has no client URL")
	}
	return localURL(urls[0], o.opts.ListenAddress), nil
}

// Served returns the URLs that the member is started for. Its peers look for it where
// etcd has it on record, which may be older than this node's flags: it is served
// there until the record has followed. A node without keys cannot serve TLS.
func (o *Observer) Served(s nodestate.State) cluster.URLs {
	urls := o.opts.URLs
	record := s.PeerURLs(o.opts.Name)
	tls := slices.ContainsFunc(record, func(u string) bool { return strings.HasPrefix(u, "https:") })
	if len(record) > 0 && (o.opts.TLS != nil || !tls) {
		urls.Peer = record
	}
	return urls
}

// localURL returns the URL under which this machine reaches its own etcd: the
// address that etcd listens on, which works before any name resolves. Serving
// certificates always hold 127.0.0.1 and ::1, and the address of their node.
func localURL(client, listen string) string {
	u, err := url.Parse(client)
	if err != nil {
		return client
	}
	ip := net.ParseIP(listen)
	switch {
	case ip == nil && listen != "":
		return client
	case ip == nil:
		u.Host = net.JoinHostPort("127.0.0.1", u.Port())
	case ip.IsUnspecified() && ip.To4() != nil:
		u.Host = net.JoinHostPort("127.0.0.1", u.Port())
	case ip.IsUnspecified():
		u.Host = net.JoinHostPort("::1", u.Port())
	default:
		u.Host = net.JoinHostPort(ip.String(), u.Port())
	}
	return u.String()
}

// sizes remembers how large each set-aside directory is: nothing writes to
// them any more, and walking one takes long.
type sizes struct {
	mu sync.Mutex
	of map[string]int64
	// ahead is when what has a time in the future was first seen.
	ahead map[aheadOfTime]time.Time
}

type aheadOfTime struct {
	name string
	at   int64
}

// since returns from when on the age of what was set aside counts.
func (s *sizes) since(a cluster.SetAside, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen(a, now)
}

// seen is since. The mutex is held.
func (s *sizes) seen(a cluster.SetAside, now time.Time) time.Time {
	if !a.At.After(now) {
		return a.At
	}
	key := aheadOfTime{a.Name, a.At.UnixNano()}
	first, ok := s.ahead[key]
	if !ok {
		first = now
		s.ahead[key] = first
	}
	return first
}

func (s *sizes) fill(dir string, now time.Time) []cluster.SetAside {
	list, err := nodestate.ListSetAside(dir)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range list {
		s.seen(list[i], now)
		size, ok := s.of[list[i].Name]
		if !ok {
			size = list[i].Bytes
			s.of[list[i].Name] = size
		}
		list[i].Bytes = size
	}
	return list
}
