package sim

import "testing"

// TestRolledBack makes sure that a cluster gets over one disk, or a store, that has
// gone back to what it was, with nothing else.
func TestRolledBack(t *testing.T) {
	for _, kind := range []FaultKind{RolledBack, StoreBehind} {
		for seed := range uint64(12) {
			faults := []Fault{{Step: 45, Kind: kind, Node: int(seed), N: int(30 + seed)}}
			h, err := Replay(seed, Config{Record: true}, faults, 70)
			if err != nil {
				t.Error(err)
			} else if !h.Converged && len(h.Holds) == 0 {
				t.Errorf("%s, seed %d: it did not converge", kind, seed)
			}
		}
	}
}

// TestALateOrderIsHeldToThePresent makes sure that a node which takes an order
// late compares it with what it has then.
func TestALateOrderIsHeldToThePresent(t *testing.T) {
	for seed := range uint64(10) {
		var faults []Fault
		for step := range 20 {
			faults = append(faults, Fault{Step: 2 + 2*step, Kind: OrderLate, Node: step, N: step})
		}
		if _, err := Replay(seed, Config{Record: true}, faults, 60); err != nil {
			t.Error(err)
		}
	}
}
