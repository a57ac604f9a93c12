package operate

import (
	"context"
	"errors"
	"net"
	"testing"
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
		ended <- m.awaitHealth(ctx, machine.Remote{Answered: true, Members: []cluster.Member{
			{Name: m.cfg.Name, ClientURLs: machine.URLs(m.cfg).Client},
			{Name: "learner", Learner: true, ClientURLs: []string{"https://127.0.0.1:1"}},
			{Name: "voter", ClientURLs: []string{"https://" + voter.Addr().String()}},
		}}, false)
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
