package nodestate

import (
	"reflect"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// The transitions of a change of the version, from 3.6.16 to 3.6.17.
func TestChangesOfTheVersion(t *testing.T) {
	from, to := etcdversion.Must("3.6.16"), etcdversion.Must("3.6.17")
	changing := func(s *State) {
		s.Assigned.Version = to
		s.Change = &cluster.VersionChange{Token: "t1", From: from, To: to, Order: "o"}
	}
	failed := func(s *State) {
		changing(s)
		s.Change.Failed = "earlier"
	}
	back := func(s *State) {
		failed(s)
		s.Change.Back, s.Assigned.Version = true, from
	}
	// Another program has changed the version since.
	foreign := func(s *State) {
		changing(s)
		s.Assigned.Version = etcdversion.Must("3.5.1")
	}
	elsewhere := func(s *State) {
		changing(s)
		s.Assigned.Token = "t2"
	}
	unchanged := func(s *State) { s.Change = nil }
	blank := func(s *State) { *s = State{} }
	for name, c := range map[string]struct {
		before func(*State)
		do     Transition
		want   func(*State) // changes the state before into the one after
		err    bool
	}{
		"begin": {unchanged, ChangeVersion("t1", to, "o"), changing, false},
		"begin another": {
			back, ChangeVersion("t1", etcdversion.Must("3.6.18"), "p"), func(s *State) {
				s.Assigned.Version = etcdversion.Must("3.6.18")
				s.Change = &cluster.VersionChange{Token: "t1", From: from, To: etcdversion.Must("3.6.18"), Order: "p"}
			}, false,
		},
		"begin, with nothing assigned": {blank, ChangeVersion("t1", to, "o"), nil, true},

		"end":                          {changing, EndChange, unchanged, false},
		"end, failed and running":      {failed, EndChange, unchanged, false},
		"end, reverted":                {back, EndChange, nil, false},
		"end, of another incarnation":  {elsewhere, EndChange, nil, false},
		"end, with another version":    {foreign, EndChange, nil, false},
		"end none":                     {unchanged, EndChange, nil, false},
		"end, with nothing assigned":   {blank, EndChange, nil, false},
		"revert none":                  {unchanged, RevertChange("why", ""), nil, true},
		"revert another's":             {foreign, RevertChange("why", ""), nil, true},
		"revert another incarnation's": {elsewhere, RevertChange("why", ""), nil, true},
		"revert": {
			changing, RevertChange("why", ""), func(s *State) {
				s.Change.Failed, s.Change.Back, s.Assigned.Version = "why", true, from
			}, false,
		},
		"revert, where that cannot be": {
			changing, RevertChange("why", "its data"), func(s *State) {
				s.Change.Failed = "why; it cannot go back: its data"
			}, false,
		},

		"forget": {
			changing, ForgetChange("t1", to, nil), func(s *State) {
				s.Change, s.Assigned.Version = nil, from
			}, false,
		},
		"forget, the old one runs": {
			changing, ForgetChange("t1", to, &from), func(s *State) {
				s.Change, s.Assigned.Version = nil, from
			}, false,
		},
		"forget, the new one runs":     {changing, ForgetChange("t1", to, &to), nil, false},
		"forget another token's":       {changing, ForgetChange("t9", to, nil), nil, false},
		"forget another version's":     {changing, ForgetChange("t1", from, nil), nil, false},
		"forget one that failed":       {failed, ForgetChange("t1", to, nil), nil, false},
		"forget another incarnation's": {elsewhere, ForgetChange("t1", to, nil), nil, false},
		"forget none":                  {unchanged, ForgetChange("t1", to, nil), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := running(), running()
			c.before(&got)
			c.before(&want)
			if c.want != nil {
				c.want(&want)
			}
			if err := c.do(&got); (err != nil) != c.err {
				t.Errorf("error is %v", err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}
