package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdproc"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// before returns what is done before each start of etcd. It chooses when the member
// is compared. Where the cluster serves without it, that is before etcd starts,
// however long it takes. Where the cluster needs it, the node compares it while etcd
// looks for a leader.
func (l *Local) before(path string, compared []string) func(context.Context) (etcdproc.Launch, error) {
	return func(ctx context.Context) (etcdproc.Launch, error) {
		if err := l.clearCutOff(); err != nil {
			return etcdproc.Launch{}, err
		}
		s := l.o.State.State()
		if text := differs(s); text != "" {
			return etcdproc.Launch{}, &DiffersError{text}
		}
		if err := l.rightBinary(ctx, path, s); err != nil {
			return etcdproc.Launch{}, err
		}
		if r := l.reach(ctx, s, servesTimeout); r.serve+r.silent < r.need {
			l.comparer.refusedAgain(false)
			return etcdproc.Launch{}, nil
		}
		return etcdproc.Launch{Wait: func(ctx context.Context) ([]string, error) {
			return l.compareFirst(ctx, path, compared)
		}}, nil
	}
}

// errNeeded breaks off a comparison before a start where the cluster has come to need
// the member.
var errNeeded = errors.New("the cluster needs the member")

// compareFirst compares the member before it starts, as long as the cluster serves
// without it. It is an error that it must not start. Otherwise it returns what etcd is
// started with: for want of a digest from the disk, etcd has to compare itself, which
// compared says.
func (l *Local) compareFirst(ctx context.Context, path string, compared []string) ([]string, error) {
	s := l.o.State.State()
	if !l.servedWithout(ctx, s, l.o.answerTimeout) {
		l.comparer.refusedAgain(false)
		return nil, nil
	}
	comparing, end := l.untilNeeded(ctx, s)
	found, err := l.compareDisk(comparing, s, path)
	brokenOff := comparing.Err() != nil
	end()
	if err != nil {
		return nil, err
	}
	if found != foundNothing || brokenOff {
		l.comparer.refusedAgain(false)
		return nil, nil
	}
	return l.comparedByEtcd(ctx, s, compared)
}

// untilNeeded returns a context that ends when a majority of the voters ceases to serve
// without the member, or after all the time that a comparison before a start has.
func (l *Local) untilNeeded(ctx context.Context, s nodestate.State) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, stop := context.WithTimeout(ctx, compareFirstTimeout)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wait.For(ctx, compareTick) == nil {
			if !l.servedWithout(ctx, s, l.o.answerTimeout) && ctx.Err() == nil {
				cancel(errNeeded)
			}
		}
	}()
	return ctx, func() {
		stop()
		<-done
		cancel(nil)
	}
}

// comparedByEtcd has etcd compare itself before it serves, except where it has ended by
// that twice already.
func (l *Local) comparedByEtcd(ctx context.Context, s nodestate.State, compared []string) ([]string, error) {
	refused := l.refusedByEtcd()
	switch again := l.comparer.refusedAgain(refused); {
	case again:
		return nil, l.refusal(ctx, s)
	case refused:
		// As for the node's own comparison, one reading is not enough.
		_ = wait.For(ctx, l.o.recheck)
		if !l.servedWithout(ctx, s, l.o.answerTimeout) {
			return nil, nil
		}
	}
	return compared, nil
}

// inconsistent is in the last lines of an etcd that has compared itself with its
// peers and found a difference.
const inconsistent = "found data inconsistency with peers"

// refusedByEtcd reports whether that ended the last process.
func (l *Local) refusedByEtcd() bool {
	return slices.ContainsFunc(l.o.Proc.Status().LastLines, func(line string) bool {
		return strings.Contains(line, inconsistent)
	})
}

// refusal is asked where etcd has found twice that the member's data is not that
// of some other one. etcd does not ask which of the two is wrong: it would keep a
// good member down beside a bad one. If a majority of the voters serves, and all
// that serve agree and run the same version, this member is wrong, which is an
// error. Otherwise it is to start, and be compared by the node: etcd would find
// the same again and again.
func (l *Local) refusal(ctx context.Context, s nodestate.State) error {
	p, err := l.digestPeer()
	if err != nil {
		return nil
	}
	defer p.Close()
	var voices []cluster.Voice
	at, version := cluster.Revision(0), s.Assigned.Version
	for _, v := range inTurn(reachable(ctx, p, l.others(s.Voters)), l.o.Name, "") {
		if v.digest(ctx, p, at) == nil {
			voices, at = append(voices, v.Voice), v.Revision
		}
	}
	other := func(v cluster.Voice) bool { return v.Version != version }
	if len(voices) == 0 || slices.ContainsFunc(voices, other) {
		return nil
	}
	agreement, unlike := cluster.Compare(len(s.Voters), voices[0], true, voices[1:])
	if agreement != cluster.Agrees || len(unlike) > 0 {
		return nil
	}
	var names []cluster.NodeName
	for _, v := range voices {
		names = append(names, v.Name)
	}
	text := fmt.Sprintf("etcd found that its data differs from its peers', and %s agree at revision %d", list(names), at)
	if err := l.condemn(s, text); err != nil {
		return err
	}
	return &DiffersError{text}
}

// servedWithout reports whether a majority of the voters serves its peers, this
// node's member not counted. Those that have taken the connection are given the
// timeout to answer: a machine that is busy is not one that does not serve.
func (l *Local) servedWithout(ctx context.Context, s nodestate.State, timeout time.Duration) bool {
	r := l.reach(ctx, s, timeout)
	return r.serve >= r.need
}

// A reach says how many of the other voters serve their peers, how many have taken the
// connection and not answered yet, and how many a majority are.
type reach struct{ serve, silent, need int }

// reach asks the other voters until it is certain whether a majority serves, but no
// longer than the timeout.
func (l *Local) reach(ctx context.Context, s nodestate.State, timeout time.Duration) reach {
	voters := s.Voters
	if len(voters) == 0 {
		voters = s.Peers
	}
	r := reach{need: cluster.Quorum(len(voters))}
	p, err := l.peer()
	if err != nil || len(voters) < 2 {
		return r
	}
	defer p.Close()
	ctx, cancel := within(ctx, timeout)
	defer cancel()
	others := l.others(voters)
	answers := make(chan answer, len(others))
	for _, m := range others {
		go func() { answers <- askWhether(ctx, p, m) }()
	}
	for open := len(others); open > 0 && r.serve < r.need && r.serve+r.silent+open >= r.need; open-- {
		switch <-answers {
		case answerServes:
			r.serve++
		case answerSilent:
			r.silent++
		}
	}
	return r
}

// An answer is that of a member that is asked whether it serves its peers.
type answer int

const (
	answerNone   answer = iota // nothing takes the connection, or what does is no such member
	answerSilent               // the connection was taken, and the time ended
	answerServes
)

// askWhether asks a member whether it serves its peers, until ctx ends. A connection has
// less time: the kernel takes it, also on a machine that is busy.
func askWhether(ctx context.Context, p *etcdclient.Peer, m cluster.InitialMember) answer {
	best := answerNone
	for _, u := range m.PeerURLs {
		asking, cancel := context.WithCancel(ctx)
		connecting, connected := within(ctx, servesTimeout)
		var taken atomic.Bool
		trace := &httptrace.ClientTrace{ConnectDone: func(_, _ string, err error) {
			if err == nil {
				taken.Store(true)
				connected()
			}
		}}
		stop := context.AfterFunc(connecting, func() {
			if !taken.Load() {
				cancel()
			}
		})
		_, err := p.Version(httptrace.WithClientTrace(asking, trace), u)
		stop()
		connected()
		cancel()
		if err == nil {
			return answerServes
		}
		if taken.Load() && ctx.Err() != nil {
			best = answerSilent
		}
	}
	return best
}

// moments are the parts of a time of which each is waited for: time in which this
// process was not given the processor does not count as time in which nobody answered.
const moments = 30

// within returns a context that ends after d, in which this process ran.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for range moments {
			if wait.For(ctx, d/moments) != nil {
				return
			}
		}
	}()
	return ctx, cancel
}
