// Package render writes for people what the commands of several programs show:
// a cluster's status, a plan, and the explanations of holds.
package render

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/internal/bytesize"
)

// Steps is a plan as programs read it.
type Steps struct {
	Spec      cluster.Spec `json:"spec"`
	Converged bool         `json:"converged"`
	// Operations are command lines, Holds the reasons for going no further.
	Operations []string    `json:"operations"`
	Holds      []plan.Hold `json:"holds"`
	// Warnings are what to know of the steps, which holds nothing.
	Warnings []string `json:"warnings,omitempty"`

	versions []etcdversion.Version
}

// Versions are the etcd versions to which members are changed, one after the other.
func (r Steps) Versions() []etcdversion.Version { return r.versions }

// NewSteps plans the whole plan from obs to spec. A pause keeps the coordinator
// from going it, not the person who asks: it is one of the holds, and the plan
// is there all the same. An error means that the plan itself is unsafe or has
// no end; nothing of it should be carried out.
func NewSteps(spec cluster.Spec, obs cluster.Observation) (Steps, error) {
	if v := countVoters(obs); v.unclear() && !v.proven {
		return Steps{}, fmt.Errorf("plan: %w", &unhealthyError{health: Unknown, text: v.said()})
	}
	_, held := plan.Next(spec, obs)
	held = slices.DeleteFunc(held, func(h plan.Hold) bool { return h.Reason != plan.Paused })
	obs.Store.Requests = slices.DeleteFunc(slices.Clone(obs.Store.Requests), func(r cluster.Request) bool {
		return r.Kind == cluster.RequestPause
	})
	p, err := plan.Make(spec, obs)
	if err != nil {
		return Steps{}, fmt.Errorf("plan: %w", err)
	}
	r := Steps{
		Spec: spec, Converged: plan.Converged(spec, obs), Operations: []string{}, Holds: []plan.Hold{},
		Warnings: warnings(spec, obs), versions: []etcdversion.Version{},
	}
	for _, op := range p.Operations {
		r.Operations = append(r.Operations, plan.Line(op))
		if c, ok := op.(*plan.MemberChangeVersion); ok && !slices.Contains(r.versions, c.To) {
			r.versions = append(r.versions, c.To)
		}
	}
	r.Holds = append(append(r.Holds, held...), p.Holds...)
	return r, nil
}

// Write writes the plan as a shell script: the command lines, and the warnings and the
// holds as comments.
func (r Steps) Write(w io.Writer) error {
	var b strings.Builder
	for _, text := range r.Warnings {
		fmt.Fprintf(&b, "# warning: %s\n", cli.Plain(text))
	}
	for _, line := range r.Operations {
		fmt.Fprintln(&b, line)
	}
	for _, h := range r.Holds {
		fmt.Fprintf(&b, "# %s\n", cli.Plain(h.String()))
	}
	if r.Converged && len(r.Operations) == 0 {
		fmt.Fprintln(&b, "# the cluster is as the spec says")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Err returns a *cli.HeldError if the cluster is not what the spec says and
// there is no step to take, nil otherwise.
func (r Steps) Err() error {
	if r.Converged || len(r.Operations) > 0 {
		return nil
	}
	return &cli.HeldError{Holds: r.Holds}
}

// An Explanation is a hold with what its reason means.
type Explanation struct {
	Reason plan.Reason `json:"reason"`
	// Text is what this hold says, empty where only the reason is explained.
	Text  string `json:"text,omitempty"`
	Means string `json:"means"`
	Do    string `json:"do"`
}

// Explain returns the explanations of the holds. A reason of another release has
// one that says so.
func Explain(holds []plan.Hold) []Explanation {
	list := []Explanation{}
	for _, h := range holds {
		doc, ok := plan.Explain(h.Reason)
		if !ok {
			doc.Means = "This release does not know this hold."
			doc.Do = "Use the etcd-manager-ctl of the release that the coordinator runs."
		}
		list = append(list, Explanation{Reason: h.Reason, Text: h.Text, Means: doc.Means, Do: doc.Do})
	}
	return list
}

// AtStore returns explanations whose command lines have the flag with the location of the store.
func AtStore(list []Explanation, flag string) []Explanation {
	at := make([]Explanation, len(list))
	for i, e := range list {
		e.Text, e.Means, e.Do = plan.AtStore(e.Text, flag), plan.AtStore(e.Means, flag), plan.AtStore(e.Do, flag)
		at[i] = e
	}
	return at
}

// WriteExplanations writes them below each other.
func WriteExplanations(w io.Writer, list []Explanation) error {
	var b strings.Builder
	for i, e := range list {
		if i > 0 {
			fmt.Fprintln(&b)
		}
		fmt.Fprintln(&b, cli.Plain(string(e.Reason)))
		if e.Text != "" {
			fmt.Fprintf(&b, "  seen:   %s\n", cli.Plain(e.Text))
		}
		fmt.Fprintf(&b, "  means:  %s\n  do:     %s\n", e.Means, e.Do)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Age writes a duration in the unit that a person would use. One that lies in
// the future is written as such: clocks differ.
func Age(d time.Duration) string {
	switch {
	case d < -time.Second:
		return "in " + span(-d)
	case d < time.Second:
		return "now"
	}
	return span(d) + " ago"
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.UTC().Format(time.RFC3339)
}

func span(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Bytes writes a size in the unit that a person would use, always with one decimal.
func Bytes(n int64) string { return bytesize.Column(n) }
