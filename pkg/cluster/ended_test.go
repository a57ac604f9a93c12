package cluster

import "testing"

// TestEnded shows what ends an incarnation: the restore of a later one, which a
// record shows, where all records can be understood.
func TestEnded(t *testing.T) {
	restored := &Restored{Request: "r", Backup: "b", Revision: 1_000_000_900}
	initialMembers := []InitialMember{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	first, second := Incarnation{Number: 1, Token: "t1", Voters: initialMembers}, Incarnation{
		Number: 2, Token: "t2", Voters: initialMembers, Restored: restored,
	}
	has := &Staged{Token: "t2"}
	staged := []Node{{Name: "a", Reachable: true}, {Name: "b", Reachable: true, Staged: has}, {
		Name: "c", Reachable: true, Staged: has,
	}}
	alone := []Node{staged[0], {Name: "b", Reachable: true}, staged[2]}
	empty := Node{Name: "d", Reachable: true}
	four := Incarnation{
		Number: 2, Token: "t2", Voters: append(initialMembers, InitialMember{Name: "d"}), Restored: restored,
	}
	observed := func(problem string, nodes []Node, list ...Incarnation) Observation {
		return Observation{Nodes: nodes, Store: Store{Reachable: true, RecordsProblem: problem, Incarnations: list}}
	}
	grown := Incarnation{Number: 2, Token: "t2", Voters: initialMembers}
	for _, tt := range []struct {
		name string
		obs  Observation
		want bool
	}{
		{"a later one was restored", observed("", staged, first, second), true},
		{"there are no records", observed("", staged), false},
		{"a record cannot be understood", observed("2: it is not JSON", staged, first, second), false},
		{"the later one was not restored", observed("", staged, first, grown), false},
		{"it has no record of its own", observed("", staged, second), false},
		{"it is the later one", observed("", staged, second, Incarnation{
			Number: 3, Token: "t1", Restored: restored, Voters: initialMembers,
		}), false},
		{"the later one never began", observed("", []Node{alone[0], alone[1]}, first, second), false},
		{"too few of its voters have what it was to begin with", observed("", alone, first, second), false},
		{"half of four voters have lost it", observed("", append(staged, empty), first, four), false},
		{"half of four voters have lost it, and the others do not answer",
			observed("", []Node{staged[0], {Name: "b"}, {Name: "c"}, empty}, first, four), true},
		{"too few of its voters have it, and one that does not answer may have been added",
			observed("", append(alone[:3:3], Node{Name: "d"}), first, second), true},
		{"one has its first revision, and has lost its disk since", observed("", []Node{
			{Name: "a", Reachable: true, Revision: restored.Revision}, alone[1],
		}, first, second), true},
		{"one has promised to begin with its first revision, and the others have lost it", observed("", []Node{
			alone[0], alone[1], {Name: "c", Reachable: true, Revision: restored.Revision, Prepared: &Prepared{Token: "t2"}},
		}, first, second), false},
		{"half of four voters have lost it, and one may have begun",
			observed("", append(staged[:2:2], Node{Name: "c", Staged: has}, empty), first, four), true},
		{"the later one has gone on without its initial members",
			observed("", []Node{{Name: "a", Reachable: true}, {Name: "b", Reachable: true}, {
				Name: "d", Assigned: &Assigned{Token: "t2"},
			}}, first, second), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.obs.Ended("t1"); got != tt.want {
				t.Errorf("ended is %v, want %v", got, tt.want)
			}
		})
	}
}
