package etcdproc

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// TestADrainedEtcdWaitsForWhoHoldsIt: it closes its port and lets go of clients that ask nothing,
// lives as long as one is kept, and is started again when that has gone.
func TestADrainedEtcdWaitsForWhoHoldsIt(t *testing.T) {
	t.Parallel()
	for _, version := range append([]string{etcdtest.V3521}, etcdtest.Versions...) {
		t.Run(version, func(t *testing.T) {
			cfg, to := secureEtcd(t, version)
			t.Parallel()
			s, _ := supervise(t, Options{StopTimeout: testwait.Limit})
			start(t, s, cfg)
			idle := etcdtest.Open(t, to)
			etcdtest.AwaitRead(t, idle)
			watched, stop := context.WithCancel(t.Context())
			defer stop()
			holder := etcdtest.Open(t, to)
			held := holder.Watch(watched, "a", clientv3.WithCreatedNotify())
			if first, ok := <-held; !ok || !first.Created {
				t.Fatalf("the watch begins with %+v", first)
			}
			pid := s.Status().PID
			if err := s.Drain(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if n, err := connections(s); err != nil || n != 1 {
				t.Errorf("etcd has %d clients, %v; want the one that is kept", n, err)
			}
			at, err := url.Parse(to.Endpoints[0])
			if err != nil {
				t.Fatal(err)
			}
			if c, err := net.Dial("tcp", at.Host); err == nil {
				_ = c.Close()
				t.Error("etcd takes clients")
			}
			if now := s.Status(); now.PID != pid || now.Restarts != 0 {
				t.Fatalf("%+v, though a client was held; it was process %d", now, pid)
			}
			stop()
			_ = holder.Close()
			testwait.Until(t, "a new process", func() bool { now := s.Status().PID; return now != 0 && now != pid })
			etcdtest.AwaitRead(t, idle)
			if how := s.Status().LastExit; !strings.HasPrefix(how, "signal: terminated") {
				t.Errorf("etcd ended with %s", how)
			}
		})
	}
}

// connections counts the clients of the process.
func connections(s *Supervisor) (int, error) {
	c := cutter{process: s.run.process.Load(), clients: s.run.cfg.ClientPorts}
	_, n, err := c.count()
	return n, err
}

// TestWhatCannotBeDrainedIsLeftAlone: what has no client port of its own would end at once.
func TestWhatCannotBeDrainedIsLeftAlone(t *testing.T) {
	s, _ := supervise(t, Options{})
	if err := s.Drain(t.Context(), 1); !errors.Is(err, ErrStopped) {
		t.Errorf("drained what does not run: %v", err)
	}
	cfg, to := secureEtcd(t, etcdtest.V36)
	cfg.Env = append(cfg.Env, "ETCD_LISTEN_CLIENT_URLS="+to.Endpoints[0]+",http://"+testport.Address(t))
	for _, ports := range [][]uint16{nil, etcdconf.ClientPorts(cfg.Env[len(cfg.Env)-1:])} {
		cfg.ClientPorts = ports
		start(t, s, cfg)
		etcdtest.AwaitRead(t, etcdtest.Open(t, to))
		pid := s.Status().PID
		if err := s.Drain(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "not at one") {
			t.Errorf("with ports %d: %v", ports, err)
		}
		etcdtest.AwaitRead(t, etcdtest.Open(t, to))
		if now := s.Status(); now.PID != pid {
			t.Errorf("with ports %d it ended: %s", ports, now.LastExit)
		}
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
