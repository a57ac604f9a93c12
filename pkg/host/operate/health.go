package operate

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdlog"
	"github.com/etcdadm/etcdadm/pkg/host/initsystem"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// answerTimeout is how long an etcd may crash again and again before it is given up:
// one that was killed is started again, by systemd after five seconds.
const answerTimeout = 8 * time.Second

// mostEnds is how often a service that has ended is started again by one command.
const mostEnds = 2

// awaitHealth waits until this machine's etcd has a leader. One that crashes
// again and again is not waited for, nor one that cannot bootstrap its cluster. A
// learner that copies the data serves only after it: while its files grow, it may take
// as long as a promotion may.
func (m *Machine) awaitHealth(ctx context.Context, goal machine.Goal, remote machine.Remote, bootstrap bool) error {
	limit := time.Duration(m.cfg.Timeouts.Start)
	most := limit
	if goal.Action == machine.Join {
		most = max(limit, time.Duration(m.cfg.Timeouts.Promotion))
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { m.askVoters(ctx, remote) })
	var crashing time.Time
	size, grown := m.copied(), time.Now()
	for {
		if r := m.local(ctx); r != nil && r.Leader != 0 {
			return nil
		}
		s, err := m.status(ctx)
		if bootstrap && machine.Stuck(m.data(), s.Uptime) {
			return nil // the next observation sees it, too
		}
		switch {
		case err == nil && s.State == initsystem.Stopped && m.ended < mostEnds && m.hasOtherStep(ctx, goal):
			m.ended++
			return nil // its supervisor was about to end when the wait began
		case err != nil || s.State != initsystem.Crashing:
			crashing = time.Time{}
		case crashing.IsZero():
			crashing = time.Now()
		case time.Since(crashing) > answerTimeout && m.startsDifferently(ctx, goal):
			return nil
		case time.Since(crashing) > answerTimeout:
			if why := m.overtaken(ctx, goal); why != nil {
				return why
			}
			return &CrashError{Detail: s.Detail, Lines: m.tail(s.LastLines), Log: m.Log()}
		}
		if now := m.copied(); now != size {
			size, grown = now, time.Now()
		}
		err = wait.For(ctx, pause/5)
		if err != nil || time.Since(grown) > limit {
			if why := m.overtaken(context.WithoutCancel(ctx), goal); why != nil {
				return why
			}
			return &UnhealthyError{Limit: limit, Detail: s.Detail, Lines: m.tail(s.LastLines), Log: m.Log()}
		}
	}
}

// startsDifferently says that an etcd which crashes would be started with other files
// by now: a member was removed after they were written, and etcd does not begin with a
// list that is not the cluster's.
func (m *Machine) startsDifferently(ctx context.Context, goal machine.Goal) bool {
	return goal.Action == machine.Join && m.hasOtherStep(ctx, goal)
}

// hasOtherStep says that something else than waiting for etcd comes next. A phase by
// itself only waits.
func (m *Machine) hasOtherStep(ctx context.Context, goal machine.Goal) bool {
	if goal.Phase != "" {
		return false
	}
	obs, err := m.Observe(ctx, goal)
	if err != nil {
		return false
	}
	step, _ := machine.Next(goal, m.cfg, obs)
	if step == nil {
		return false
	}
	_, waits := step.Do.(*machine.AwaitHealth)
	return !waits
}

// copied returns the size in bytes of the files of this machine's member.
func (m *Machine) copied() (size int64) {
	at := m.dataDirs()
	for _, dir := range []string{at.Snap(), at.Log()} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // not there yet
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil {
				size += info.Size()
			}
		}
	}
	return size
}

// askVoters asks a voter for its report again and again until ctx ends. A learner of
// a cluster that nobody writes to serves only because somebody does: see
// [etcdclient.Client.Report].
func (m *Machine) askVoters(ctx context.Context, remote machine.Remote) {
	for ctx.Err() == nil {
		for _, member := range remote.Members {
			if member.Learner || member.Name == m.cfg.Name {
				continue
			}
			if _, err := m.report(ctx, member.ClientURLs); err == nil {
				break
			}
		}
		_ = wait.For(ctx, pause)
	}
}

// tail returns the last lines of etcd's log: more than those that the init system
// reports, where they can be had, because a panic ends in many lines of stack.
func (m *Machine) tail(lines []string) []string {
	if m.cfg.Service.InitSystem != machine.Process {
		return lines
	}
	f, err := os.Open(m.Log())
	if err != nil {
		return lines
	}
	defer f.Close()
	const size = 64 << 10
	if info, err := f.Stat(); err == nil && info.Size() > size {
		_, _ = f.Seek(-size, io.SeekEnd)
	}
	b, err := io.ReadAll(io.LimitReader(f, size))
	if err != nil || len(b) == 0 {
		return lines
	}
	said := strings.Split(strings.TrimSpace(string(b)), "\n")
	said = slices.DeleteFunc(said, func(line string) bool {
		return line == "" || strings.Contains(line, "Z etcdadm: ") // the supervisor's own
	})
	if len(said) == 0 {
		return lines
	}
	return said
}

// Log says where etcd's log is: a file, or the command that shows it.
func (m *Machine) Log() string {
	switch m.cfg.Service.InitSystem {
	case machine.Kubelet:
		return "crictl logs, or /var/log/pods"
	case machine.Process:
		return m.cfg.Paths.ProcessLog()
	}
	return "journalctl -u etcd"
}

func (m *Machine) status(ctx context.Context) (initsystem.Status, error) {
	if m.initSystem == nil {
		return initsystem.Status{}, m.initSystemErr
	}
	return m.initSystem.Status(ctx)
}

// A CrashError says that etcd ends as soon as it has started.
type CrashError struct {
	Detail string
	Lines  []string
	// Log is how to see more of them.
	Log string
}

func (e *CrashError) Error() string {
	return "etcd keeps ending: " + e.Detail + last(e.Lines)
}

// Hint says what to do about it.
func (e *CrashError) Hint() string {
	return "check etcd's log: " + e.Log
}

// An UnhealthyError says that etcd runs and does not serve.
type UnhealthyError struct {
	Limit  time.Duration
	Detail string
	Lines  []string
	// Log is how to see more of them.
	Log string
}

func (e *UnhealthyError) Error() string {
	return fmt.Sprintf("etcd does not serve within %s: %s%s", e.Limit, e.Detail, last(e.Lines))
}

// Hint says what to do about it.
func (e *UnhealthyError) Hint() string {
	return "check etcd's log (" + e.Log +
		") and the network to the other members (peer port); allow more time with --start-timeout"
}

// last says why etcd ended or does not serve, as far as its last lines say.
func last(lines []string) string {
	if cause := etcdlog.Cause(lines); cause != "" {
		return "; from its log: " + cause
	}
	return ""
}
