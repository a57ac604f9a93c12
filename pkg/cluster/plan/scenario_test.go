package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// TestScenarios runs testdata/*.txt. Each file has one scenario. The commands:
//
//	spec members=3 version=3.6.16 grace=10m ...
//	observe   the facts of a world (see stage); prints nothing
//	amend     changes some facts
//	plan      the whole plan and the holds at its end; with facts, observes first
//	next      the first operation and its holds; with facts, amends first
//	step      carries out the next operation in the model, n=3 for three
//	check     what Check says to a command line; "check unseen" in a world that no
//	          observation shows, which Check does not rely on
//
// Run with -rewrite to accept what the planner says, and commit only a
// difference that you understand.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := newStage()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := s.command(d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			return brief(out)
		})
	})
}

// brief leaves out of command lines what is the same in every scenario: the
// version, and the peer URL of a node, which is made from its name.
func brief(out string) string {
	words := strings.SplitAfter(strings.ReplaceAll(out, " --version="+standard.String(), ""), " ")
	for j, w := range words {
		name, url, ok := strings.Cut(w, "=https://")
		if i := strings.LastIndexByte(name, '='); ok && i >= 0 && strings.HasPrefix(url, name[i+1:]+":2380") {
			words[j] = name + strings.TrimPrefix(url, name[i+1:]+":2380")
		}
	}
	return strings.Join(words, "")
}

func (s *stage) command(d *datadriven.TestData) (string, error) {
	switch d.Cmd {
	case "spec":
		return "", s.setSpec(d.CmdArgs)
	case "observe":
		return "", s.observe(d.Input)
	case "amend":
		return "", s.amend(d.Input)
	case "plan":
		if d.Input != "" {
			if err := s.observe(d.Input); err != nil {
				return "", err
			}
		}
		return s.steps()
	case "next":
		if err := s.amend(d.Input); err != nil {
			return "", err
		}
		return s.next()
	case "step":
		n := 1
		if arg, ok := d.Arg("n"); ok {
			if _, err := fmt.Sscan(arg.Vals[0], &n); err != nil {
				return "", err
			}
		}
		return s.step(n)
	case "check":
		return s.check(d.Input, d.HasArg("unseen"))
	}
	return "", fmt.Errorf("there is no command %q", d.Cmd)
}

func (s *stage) setSpec(args []datadriven.CmdArg) error {
	s.spec = cluster.Spec{MemberCount: 3, EtcdVersion: standard}
	for _, a := range args {
		v := ""
		if len(a.Vals) > 0 {
			v = a.Vals[0]
		}
		p := &s.spec.Policy
		var err error
		switch a.Key {
		case "members":
			_, err = fmt.Sscan(v, &s.spec.MemberCount)
		case "version":
			s.spec.EtcdVersion, err = etcdversion.Parse(v)
		case "risk": // of the version that stands before it
			s.spec.Risk = cluster.VersionRisk{Version: s.spec.EtcdVersion, Reason: v}
		case "none":
			s.spec = cluster.Spec{}
		case "fixed":
			p.FixedSpec = true
		case "onrequest":
			p.OnRequest = true
		case "static":
			for _, name := range a.Vals {
				p.StaticNodes = append(p.StaticNodes, cluster.NodeName(name))
			}
		default:
			err = setDuration(p, a.Key, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// steps prints the plan, after it has made sure that what every plan promises
// holds for this one.
func (s *stage) steps() (string, error) {
	if err := producible(s.obs); err != nil {
		return "", err
	}
	p, err := plan.Make(s.spec, s.obs)
	if err != nil {
		return "", err
	}
	if err := turnsAround(p.Operations); err != nil {
		return "", err
	}
	if err := leadsAlong(s.spec, s.obs, p); err != nil {
		return "", err
	}
	spec, obs := s.spec, s.obs
	var b strings.Builder
	for _, op := range p.Operations {
		fmt.Fprintln(&b, plan.Line(op))
		if obs, err = follow(spec, obs, op); err != nil {
			return "", err
		}
		if w, ok := op.(*plan.SpecWrite); ok {
			spec.MemberCount, spec.EtcdVersion = w.MemberCount, w.EtcdVersion
		}
	}
	for _, h := range p.Holds {
		fmt.Fprintln(&b, h)
	}
	if plan.Converged(spec, obs) {
		fmt.Fprintln(&b, "converged")
	} else if len(p.Holds) == 0 {
		return "", fmt.Errorf("stuck without a reason:\n%s", b.String())
	}
	return b.String(), nil
}

// leadsAlong makes sure that the versions to which a plan that comes to its end changes
// members are those of the upgrade path.
func leadsAlong(spec cluster.Spec, obs cluster.Observation, p plan.Plan) error {
	var versions []etcdversion.Version
	for _, op := range p.Operations {
		switch op := op.(type) {
		case *plan.MemberChangeVersion:
			if !slices.Contains(versions, op.To) {
				versions = append(versions, op.To)
			}
		case *plan.IncarnationCreate:
			if obs.SealedRequest() != nil {
				versions = append(versions, op.Version)
			}
		}
	}
	path := plan.UpgradePath(spec, obs)
	if len(versions) > 0 && len(p.Holds) == 0 && (len(path) == 0 || !slices.Equal(path[1:], versions)) {
		return fmt.Errorf("the upgrade path is %v, and the plan leads by %v", path, versions)
	}
	return nil
}

// follow predicts op and holds it to its own contract.
func follow(spec cluster.Spec, obs cluster.Observation, op plan.Operation) (cluster.Observation, error) {
	if err := plan.Check(spec, obs, op); err != nil {
		return obs, fmt.Errorf("%s: %w", plan.Line(op), err)
	}
	after := plan.Predict(obs, op)
	again := false
	switch op := op.(type) {
	case *plan.BackupTake, *plan.BackupVerify, *plan.BackupDrill:
		again = true
	case *plan.SpecWrite:
		again = op.Request != "" // an observation does not show what the spec is
	}
	if plan.Done(after, op) == again {
		return obs, fmt.Errorf("%s: Done is %v after it was done", plan.Line(op), !again)
	}
	return after, nil
}

func (s *stage) next() (string, error) {
	if err := producible(s.obs); err != nil {
		return "", err
	}
	op, holds := plan.Next(s.spec, s.obs)
	var b strings.Builder
	if op != nil {
		fmt.Fprintln(&b, plan.Line(op))
		if err := plan.Check(s.spec, s.obs, op); err != nil {
			return "", fmt.Errorf("%s: %w", plan.Line(op), err)
		}
	}
	for _, h := range holds {
		fmt.Fprintln(&b, h)
	}
	if op == nil && plan.Converged(s.spec, s.obs) {
		fmt.Fprintln(&b, "converged")
	} else if op == nil && len(holds) == 0 {
		return "", fmt.Errorf("stuck without a reason")
	}
	return b.String(), nil
}

func (s *stage) step(n int) (string, error) {
	if err := producible(s.obs); err != nil {
		return "", err
	}
	var b strings.Builder
	for range n {
		op, _ := plan.Next(s.spec, s.obs)
		if op == nil {
			return "", fmt.Errorf("there is nothing to do")
		}
		fmt.Fprintln(&b, plan.Line(op))
		obs, err := follow(s.spec, s.obs, op)
		if err != nil {
			return "", err
		}
		s.obs = obs
	}
	return b.String(), nil
}

func (s *stage) check(line string, unseen bool) (string, error) {
	switch err := producible(s.obs); {
	case unseen && err == nil:
		return "", errors.New("an observation shows this world: it is not unseen")
	case !unseen && err != nil:
		return "", err
	}
	op, err := plan.Parse(strings.Fields(line)[1:])
	if err != nil {
		return "", err
	}
	if err := plan.Check(s.spec, s.obs, op); err != nil {
		return err.Error(), nil
	}
	return "ok", nil
}
