package election

import (
	"context"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/lease"
)

// A disk that hangs keeps a new promise from being made, and nobody from what
// has been promised.
func TestAStandingDoesNotWaitForTheDisk(t *testing.T) {
	record := cluster.Electors{Token: "t1", Term: 1, Names: []cluster.NodeName{"a", "b"}}
	writing, goOn := make(chan struct{}), make(chan struct{})
	v := NewVoter(VoterOptions{
		Cluster: "c", Self: "a", Durable: lease.Durable{Term: 1, Electors: record},
		Persist: func(lease.Durable) error {
			writing <- struct{}{}
			<-goOn
			return nil
		},
	})
	ended := make(chan error)
	go func() {
		_, err := v.Lease(context.Background(), lease.Request{
			Cluster: "c", Token: "t1", Term: 5, Holder: "b", Boot: "x", TTL: lease.DefaultTTL, Electors: record,
		})
		ended <- err
	}()
	<-writing
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if s, err := v.Standing(ctx); err != nil || s.Seen != 1 || s.Holder != "" || len(s.Electors.Names) != 2 {
		t.Errorf("while the promise is written it says %+v, %v", s, err)
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if s, err := v.Standing(ctx); err != nil || s.Seen != 5 || s.Holder != "b" {
		t.Errorf("afterwards it says %+v, %v", s, err)
	}
}
