package operate

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// A machine that waits for its learner asks voters meanwhile, because a learner that
// nobody writes to may not serve before they are asked.
func TestVotersAreAskedWhileALearnerStarts(t *testing.T) {
	voter, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := machine.Defaults()
	cfg.Name, cfg.Listen.Address, cfg.Paths.Data = "node1", "127.0.0.1", t.TempDir()
	cfg.Timeouts.Start = machine.Duration(time.Hour)
	m := &Machine{cfg: cfg, initSystemErr: errors.New("no init system")}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		remote := machine.Remote{Answered: true, Members: []cluster.Member{
			{Name: m.cfg.Name, ClientURLs: machine.URLs(m.cfg).Client},
			{Name: "learner", Learner: true, ClientURLs: []string{"https://127.0.0.1:1"}},
			{Name: "voter", ClientURLs: []string{"https://" + voter.Addr().String()}},
		}}
		ended <- m.awaitHealth(ctx, machine.Goal{Action: machine.Join}, remote, false)
	}()
	for range 2 { // again and again
		c, err := voter.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	cancel()
	voter.Close()
	var unhealthy *UnhealthyError
	if err := <-ended; !errors.As(err, &unhealthy) {
		t.Errorf("error %v", err)
	}
}

// A learner that copies the data is waited for while its files grow, and no longer than a
// promotion is.
func TestACopyThatGrowsIsWaitedFor(t *testing.T) {
	for name, tc := range map[string]struct{ grows, least, most time.Duration }{
		"nothing grows":      {0, time.Minute, 2 * time.Minute},
		"five minutes":       {5 * time.Minute, 5*time.Minute + 20*time.Second, 7 * time.Minute},
		"longer than it may": {time.Hour, 10 * time.Minute, 11 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := machine.Defaults()
				cfg.Name, cfg.Paths.Data = "node1", t.TempDir()
				cfg.Timeouts.Start, cfg.Timeouts.Promotion = machine.Duration(time.Minute), machine.Duration(10*time.Minute)
				dir := filepath.Join(cfg.Paths.Member(), "snap")
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				m := &Machine{cfg: cfg, initSystemErr: errors.New("no init system")}
				began, done := time.Now(), make(chan struct{})
				var growing sync.WaitGroup
				growing.Go(func() {
					for n := 1; time.Since(began) < tc.grows; n++ {
						if err := os.WriteFile(filepath.Join(dir, "tmp1"), make([]byte, n), 0o600); err != nil {
							t.Error(err)
						}
						select {
						case <-done:
							return
						case <-time.After(30 * time.Second):
						}
					}
				})
				var unhealthy *UnhealthyError
				err := m.awaitHealth(t.Context(), machine.Goal{Action: machine.Join}, machine.Remote{}, false)
				took := time.Since(began)
				close(done)
				growing.Wait()
				if !errors.As(err, &unhealthy) || took < tc.least || took > tc.most {
					t.Errorf("it takes %s, %v", took, err)
				}
			})
		})
	}
}

// Others are asked than the one that was named, who may be removed meanwhile.
func TestEndpointsOfAJoin(t *testing.T) {
	m := &Machine{o: Options{Endpoints: []string{"https://x"}}, known: []string{"https://x", "https://y"}}
	join := machine.Goal{Action: machine.Join}
	if got := m.endpoints(join, machine.Observation{}); !slices.Equal(got, []string{"https://x", "https://y"}) {
		t.Errorf("asked are %v", got)
	}
	join.Phase = "health"
	written := machine.Observation{Written: map[string]string{
		"ETCD_NAME": "b", "ETCD_ADVERTISE_CLIENT_URLS": "https://10.0.0.2:2379",
		"ETCD_INITIAL_CLUSTER": "a=https://10.0.0.1:2380,b=https://10.0.0.2:2380",
	}}
	want := []string{"https://10.0.0.1:2379", "https://10.0.0.2:2379", "https://x"}
	if got := (&Machine{o: m.o}).endpoints(join, written); !slices.Equal(got, want) {
		t.Errorf("asked are %v", got)
	}
}
