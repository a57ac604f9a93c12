package cluster

import "testing"

// TestHighWater: each source counts by itself, and none hides another.
func TestHighWater(t *testing.T) {
	low := func() Observation {
		return Observation{
			Revision: 1,
			Nodes:    []Node{{Name: "a", Revision: 2}, {Name: "b", Revision: 3}},
			Store: Store{
				Revision: 4, Source: &Source{Revision: 5, Seen: 6},
				Incarnations: []Incarnation{
					{Number: 1}, {Number: 2, Restored: &Restored{Revision: 7}}, {Number: 3, Restored: &Restored{Revision: 8}},
				},
			},
		}
	}
	if high := low().HighWater(); high != 8 {
		t.Errorf("of all: %d", high)
	}
	if high := (Observation{}).HighWater(); high != 0 {
		t.Errorf("of nothing: %d", high)
	}
	began := func(o *Observation, i int) *Revision { return &o.Store.Incarnations[i].Restored.Revision }
	for source, of := range map[string]func(*Observation) *Revision{
		"the members":                          func(o *Observation) *Revision { return &o.Revision },
		"the first node's mark":                func(o *Observation) *Revision { return &o.Nodes[0].Revision },
		"the last node's mark":                 func(o *Observation) *Revision { return &o.Nodes[1].Revision },
		"the store's mark":                     func(o *Observation) *Revision { return &o.Store.Revision },
		"the backup that is restored":          func(o *Observation) *Revision { return &o.Store.Source.Revision },
		"the newest backup":                    func(o *Observation) *Revision { return &o.Store.Source.Seen },
		"the record of an earlier incarnation": func(o *Observation) *Revision { return began(o, 1) },
		"the record of the newest incarnation": func(o *Observation) *Revision { return began(o, 2) },
	} {
		o := low()
		if *of(&o) = 900; o.HighWater() != 900 {
			t.Errorf("%s reports 900, the highest is %d", source, o.HighWater())
		}
	}
}
