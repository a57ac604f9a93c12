package etcdadm

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/command/internal/daemons"
	"github.com/etcdadm/etcdadm/pkg/node/apply"
)

// recorder is a cluster that remembers what it was asked to do.
type recorder struct{ got []plan.Operation }

func (r *recorder) Observe(context.Context) (cluster.Spec, cluster.Observation, error) {
	return cluster.Spec{}, cluster.Observation{}, errors.New("not here")
}

func (r *recorder) Do(_ context.Context, op plan.Operation) error {
	r.got = append(r.got, op)
	return nil
}

func (r *recorder) Close() error { return nil }

// throughCommands runs an argument vector and returns what the cluster was
// asked to do.
func throughCommands(t *testing.T, argv []string) (op plan.Operation, code int, stderr string) {
	t.Helper()
	t.Setenv("ETCDADM_NODES", "127.0.0.1:8000")
	r := &recorder{}
	root := New(func(context.Context, ConnectOptions) (Cluster, error) { return r, nil })
	var out, errs strings.Builder
	root.SetOut(&out)
	root.SetErr(&errs)
	code = cli.Run(t.Context(), root, argv)
	if out.Len() > 0 {
		t.Errorf("%q: the standard output has %q", argv, out.String())
	}
	if len(r.got) == 1 {
		op = r.got[0]
	}
	return op, code, errs.String()
}

// roundTrip sends op through the command line and back.
func roundTrip(t *testing.T, op plan.Operation) {
	t.Helper()
	argv := plan.Argv(op)
	got, code, stderr := throughCommands(t, argv)
	if code != 0 || !reflect.DeepEqual(got, op) {
		t.Errorf("%q became %#v, want %#v (exit code %d, %s)", argv, got, op, code, stderr)
	}
	parsed, err := plan.Parse(argv)
	if err != nil || !reflect.DeepEqual(parsed, op) {
		t.Errorf("%q is parsed as %#v, want %#v (%v)", argv, parsed, op, err)
	}
}

// sample returns an operation of the kind with every flag set.
func sample(t *testing.T, k plan.Kind, words ...string) (plan.Operation, error) {
	t.Helper()
	op := k.New()
	for i, f := range k.Flags() {
		word := words[i%len(words)]
		// Some values have a form of their own.
		switch f.Name {
		case "peer-url":
			word = "https://a:2380"
		case "voter", "peer":
			word = "a=https://a:2380"
		case "entry":
			word = "10.0.0.1=a"
		case "expect-at":
			word = "2026-11-20T10:39:37Z"
		case "mode":
			word = "restart"
		case "outcome":
			word = "refused"
		}
		for _, try := range []string{word, "3.6.16", "7", "n=" + word} {
			if plan.Set(k.New(), f.Name, try) == nil {
				word = try
				break
			}
		}
		if err := plan.Set(op, f.Name, word); err != nil {
			return nil, err
		}
		if f.Repeated {
			if err := plan.Set(op, f.Name, word); err != nil {
				return nil, err
			}
		}
	}
	return op, plan.Validate(op)
}

func TestEveryOperationGoesThroughTheCommandLine(t *testing.T) {
	for _, k := range plan.Kinds() {
		t.Run(k.Path, func(t *testing.T) {
			op, err := sample(t, k, "a", "b")
			if err != nil {
				t.Fatal(err)
			}
			roundTrip(t, op)
		})
	}
}

func TestEveryLineOfAPlanGoesThroughTheCommandLine(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	bootstrapped, err := bootstrappedWorld(now)
	if err != nil {
		t.Fatal(err)
	}
	shrink := bootstrapped
	shrink.Spec.MemberCount = 1
	one := emptyWorld(now)
	one.Spec.MemberCount = 1
	for name, w := range map[string]fakeWorld{"found three": emptyWorld(now), "found one": one, "shrink": shrink} {
		t.Run(name, func(t *testing.T) {
			p, err := plan.Make(w.Spec, w.Observation)
			if err != nil || len(p.Operations) == 0 {
				t.Fatalf("%d operations, %v", len(p.Operations), err)
			}
			for _, op := range p.Operations {
				roundTrip(t, op)
			}
		})
	}
}

func FuzzCommandLine(f *testing.F) {
	f.Add(0, "a", "b")
	f.Add(14, "-x --y", "line\nbreak")
	f.Add(11, "it's", `"quoted" \ $HOME`)
	f.Add(15, "--remove=x", "--")
	f.Add(15, "-o", "-backup-store")
	f.Fuzz(func(t *testing.T, kind int, a, b string) {
		kinds := plan.Kinds()
		op, err := sample(t, kinds[uint(kind)%uint(len(kinds))], a, b)
		if err != nil {
			t.Skip()
		}
		roundTrip(t, op)
	})
}

func TestOperationsThatAreWrong(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"member start", "member start: --node is missing"},
		{"member start --node=a --token=t --mode=slow --version=3.6.16", "--mode=slow is not new, join or restart"},
		{"member start --node=a/b", `has the character '/'`},
		{"member promote --name=a --name=b --expect-voters=2", "it is given twice"},
		{"member promote --name=a --expect-voters=two", "is not a whole number"},
		{"member promote --nam=a", "did you mean --name?"},
		{"member promote a", `unknown command "a"`},
		{"member remove --id=xyz", "is not a hexadecimal number"},
		{"member explode", `unknown command "explode" for etcdadm member`},
		{"member list", "hint: the members: etcdadm status"},
		{"backup list", "hint: the backups: etcd-manager-ctl list-backups"},
		{"member promot", "did you mean etcdadm member promote?"},
		{"member", "etcdadm member needs a command: add-learner, "},
	} {
		op, code, stderr := throughCommands(t, strings.Fields(c.args))
		if code != 2 || op != nil || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, did %v, said %q, want %q", c.args, code, op, stderr, c.want)
		}
	}
}

func TestTreeIsTheListOfOperations(t *testing.T) {
	root := New(nil)
	leaves := map[string]*cobra.Command{}
	for _, group := range root.Commands() {
		if group.GroupID != "do" {
			continue
		}
		if group.Short == "" || group.Short != groups[group.Name()] {
			t.Errorf("group %s has no text", group.Name())
		}
		for _, leaf := range group.Commands() {
			leaves[group.Name()+" "+leaf.Name()] = leaf
		}
	}
	for _, k := range plan.Kinds() {
		leaf := leaves[k.Path]
		if leaf == nil {
			t.Errorf("there is no command %s", k.Path)
			continue
		}
		delete(leaves, k.Path)
		long := strings.Join(strings.Fields(leaf.Long), " ") // its lines are wrapped
		if !strings.Contains(long, k.Needs) || !strings.Contains(long, k.Done) ||
			strings.Contains(leaf.Long, "Destructive") != k.Destructive {
			t.Errorf("the help of %s is %q", k.Path, leaf.Long)
		}
		for _, f := range k.Flags() {
			if have := leaf.Flags().Lookup(f.Name); have == nil || have.Usage != f.Doc {
				t.Errorf("%s: flag --%s is %+v", k.Path, f.Name, have)
			}
		}
	}
	if len(leaves) > 0 {
		t.Errorf("commands without an operation: %v", leaves)
	}
}

func TestFlagsOfOperationsAndConnectionsDiffer(t *testing.T) {
	persistent := New(nil).PersistentFlags()
	for _, k := range plan.Kinds() {
		for _, f := range k.Flags() {
			if persistent.Lookup(f.Name) != nil {
				t.Errorf("%s: --%s is a flag of the connection too", k.Path, f.Name)
			}
		}
	}
	listed := map[string]bool{}
	for _, name := range connectFlags {
		listed[name] = true
	}
	var o ConnectOptions
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	o.addFlags(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		if !listed[f.Name] {
			t.Errorf("--%s cannot be set in the environment", f.Name)
		}
		delete(listed, f.Name)
	})
	if len(listed) > 0 {
		t.Errorf("not flags: %v", listed)
	}
}

// An operation has as long as a coordinator gives it, unless a person says how long.
func TestTimeOfAnOperation(t *testing.T) {
	for _, f := range connectFlags {
		t.Setenv(variable(f), "")
	}
	force := []string{"member", "force-snapshot", "--node=a", "--expect-token=t1", "--expect-member-id=1"}
	for _, c := range []struct {
		args []string
		want time.Duration
	}{
		{force, apply.Deadline(&plan.MemberForceSnapshot{})},
		{append(force, "--timeout=3s"), 3 * time.Second},
		{[]string{"member", "move-leader", "--to=b"}, time.Minute},
	} {
		var got time.Duration
		root := newTree(func(_ context.Context, o ConnectOptions) (Cluster, error) {
			got = o.Timeout
			return nil, errors.New("not here")
		}, func() ([]daemons.Daemon, error) { return nil, nil })
		root.SetErr(io.Discard)
		root.SetOut(io.Discard)
		cli.Run(t.Context(), root, append(c.args, "--nodes=127.0.0.1:1", "--insecure"))
		if got != c.want || got < time.Second {
			t.Errorf("%q has %s, want %s", c.args, got, c.want)
		}
	}
}
