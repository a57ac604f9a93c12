package etcdadm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/command/internal/daemons"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A fake is a cluster in a file, which changes as plan.Predict says. Several
// processes may use it one after the other, as the lines of a script do.
type fake struct {
	file string
	w    fakeWorld
}

type fakeWorld struct {
	Spec        cluster.Spec        `json:"spec"`
	Observation cluster.Observation `json:"observation"`
	// Holder has the lease; Hang makes operations hang.
	Holder string `json:"holder,omitempty"`
	Hang   bool   `json:"hang,omitempty"`
}

// openFake opens the world in the file that ETCDADM_TEST_WORLD names. It
// writes the options that it gets to the file options.json.
func openFake(_ context.Context, o ConnectOptions) (Cluster, error) {
	b, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile("options.json", append(b, '\n'), 0o600); err != nil {
		return nil, err
	}
	if o.BackupStore == "down" {
		return nil, fmt.Errorf("read the spec: %w", store.ErrUnreachable)
	}
	f := &fake{file: os.Getenv("ETCDADM_TEST_WORLD")}
	if b, err = os.ReadFile(f.file); err != nil {
		return nil, err
	}
	return f, json.Unmarshal(b, &f.w)
}

func (f *fake) Observe(context.Context) (cluster.Spec, cluster.Observation, error) {
	if f.w.Holder == "nobody-answers" {
		return cluster.Spec{}, cluster.Observation{}, errors.New("no node answers")
	}
	return f.w.Spec, f.w.Observation, nil
}

type leaseError struct{ holder string }

func (e leaseError) Error() string { return "the lease is held by " + e.holder }
func (e leaseError) Kind() string  { return "refused" }
func (e leaseError) Hint() string  { return "etcd-manager-ctl pause" }

func (f *fake) Do(ctx context.Context, op plan.Operation) error {
	switch {
	case f.w.Holder != "":
		return leaseError{f.w.Holder}
	case f.w.Hang:
		<-ctx.Done()
		return fmt.Errorf("wait for the learner: %w", ctx.Err())
	case plan.Done(f.w.Observation, op):
		return nil
	}
	if err := plan.Check(f.w.Spec, f.w.Observation, op); err != nil {
		return err
	}
	f.w.Observation = plan.Predict(f.w.Observation, op)
	return f.write()
}

func (f *fake) write() error {
	b, err := json.MarshalIndent(f.w, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(f.file, b, 0o600)
}

func (f *fake) Close() error {
	if f.w.Holder == "lost-on-close" {
		return errors.New("close: broken")
	}
	return nil
}

// emptyWorld returns three nodes of which nothing is known to have existed,
// and the spec for a cluster on them.
func emptyWorld(now time.Time) fakeWorld {
	version := etcdversion.Must("3.6.16")
	obs := cluster.Observation{
		Cluster: "etcd", At: now, Observer: "", Since: now.Add(-time.Hour), Nonce: "tok1",
		Store: cluster.Store{Reachable: true, BackupsKnown: true},
	}
	for i, name := range []cluster.NodeName{"a", "b", "c"} {
		host := fmt.Sprintf("10.0.0.%d", i+1)
		obs.Nodes = append(obs.Nodes, cluster.Node{
			Name: name, Address: host + ":8000", Reachable: true, LastSeen: now, Boot: cluster.Token("boot-" + name),
			Published: true,
			URLs: cluster.URLs{
				Peer: []string{"http://" + host + ":2380"}, Client: []string{"http://" + host + ":4001"}, Quarantine: []string{
					"http://" + host + ":8001",
				},
			},
			Disk:     cluster.Disk{State: cluster.DiskEmpty},
			Process:  cluster.Process{State: cluster.ProcessStopped},
			Versions: []etcdversion.Version{version}, FreeBytes: 10 << 30,
		})
	}
	return fakeWorld{Spec: cluster.Spec{MemberCount: 3, EtcdVersion: version}, Observation: obs}
}

// bootstrappedWorld returns the empty world when the whole plan has been carried
// out, an hour later.
func bootstrappedWorld(now time.Time) (fakeWorld, error) {
	w := emptyWorld(now)
	p, err := plan.Make(w.Spec, w.Observation)
	if err != nil {
		return w, err
	}
	for _, op := range p.Operations {
		w.Observation = plan.Predict(w.Observation, op)
	}
	if !plan.Converged(w.Spec, w.Observation) {
		return w, fmt.Errorf("bootstrap does not converge: %v", p.Holds)
	}
	return w, nil
}

// findFake finds no daemon, whatever runs on this machine.
func findFake() ([]daemons.Daemon, error) { return nil, nil }
