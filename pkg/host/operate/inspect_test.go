package operate

import (
	"context"
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/host/initsystem"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// A lateService is one that the first observation does not find, and the others do if it begins.
type lateService struct {
	initsystem.System
	begins bool
	asked  int
}

func (s *lateService) Status(context.Context) (initsystem.Status, error) {
	s.asked++
	if s.begins && s.asked > 1 {
		return initsystem.Status{State: initsystem.Running, Enabled: true}, nil
	}
	return initsystem.Status{State: initsystem.Stopped}, nil
}

// An etcd of this machine that begins while it is inspected, as where the command that started
// it was killed and is repeated, is not taken for somebody else's.
func TestAnEtcdThatHasJustBegunHasItsPorts(t *testing.T) {
	for _, begins := range []bool{true, false} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, text, _ := net.SplitHostPort(l.Addr().String())
		port, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		cfg := machine.Config{Name: "a", Listen: machine.Listen{
			Address: "127.0.0.1", ClientPort: port, PeerPort: testport.Free(t),
		}}
		cfg.Service.InitSystem = machine.Process
		cfg.Paths = machine.Paths{
			Data: filepath.Join(dir, "data"), Environment: dir, Install: dir, Certificates: filepath.Join(dir, "pki"),
		}
		m, err := New(t.Context(), Options{Config: cfg})
		if err != nil {
			t.Fatal(err)
		}
		m.initSystem = &lateService{begins: begins}
		obs, err := m.Inspect(t.Context(), machine.Goal{Action: machine.Init})
		if err != nil {
			t.Fatal(err)
		}
		ports := obs.Host.Ports
		if len(ports) == 0 || ports[0].Port != port || ports[0].Ours != begins {
			t.Errorf("it begins: %t; ports %+v", begins, ports)
		}
	}
}
