package sim

import (
	"fmt"
	"testing"
)

// TestRegressions replays what the simulator has found, shrunk. Each was a
// broken invariant once; the name says what it taught. Most are reported as
// scenarios in package plan as well.
func TestRegressions(t *testing.T) {
	tests := []struct {
		name   string
		seed   uint64
		steps  int
		faults []Fault
	}{
		{"the lease voters' record moves before the evicted node is cleared", 16, 45, []Fault{
			{14, SpecChanges, 5, 9}, {44, SpecChanges, 7, 20},
		}},
		{"a void promise does not start while no member answers", 14221, 20, []Fault{
			{4, OpFails, 0, 21}, {5, SpecChanges, 0, 13}, {6, NodeDown, 7, 5}, {10, NodeDown, 2, 14}, {19, StoppedByHand, 3, 3},
		}},
		{"a token of which some initial member lost its promise is not used again", 16953, 59, []Fault{
			{4, Partition, 4, 22}, {26, StoreEmptied, 6, 19}, {58, DiskLost, 2, 10},
		}},
		{"a late promise does not replace the one that went with the disk", 210587, 20, []Fault{
			{2, StateLost, 6, 11}, {5, NodeDown, 0, 17}, {7, OpDelayed, 7, 14}, {8, OpFails, 6, 1}, {14, DiskLost, 3, 4},
		}},
		{"a second promise arrives after the disk was lost", 297603, 17, []Fault{
			{3, Rival, 2, 20}, {12, DiskLost, 7, 8}, {16, NodeGone, 5, 25},
		}},
		{"pause between a promotion and the lease voters' record", 664, 26, []Fault{
			{10, Partition, 2, 12}, {11, OpHalf, 2, 22}, {12, StoreDown, 1, 11}, {16, PauseFor, 3, 18}, {25, DiskLost, 5, 14},
		}},
		{"the store is emptied when an initial member is half started", 1207, 4, []Fault{
			{2, OpHalf, 1, 6}, {3, StoreEmptied, 1, 22},
		}},
		{"a coordinator that may not act keeps observing", 390015, 43, []Fault{
			{0, OpDelayed, 4, 20}, {6, DiskLost, 2, 8}, {9, StoreEmptied, 6, 14}, {15, SpecChanges, 5, 18}, {
				41, Partition, 3, 10,
			},
		}},
		{"a member with corrupt data is not well when it was ordered to start", 16810535984111829, 20, []Fault{
			{9, OpDelayed, 3, 10}, {11, StoppedByHand, 4, 22}, {12, DataCorrupt, 7, 9}, {17, MarkerLost, 4, 5}, {
				18, SpecChanges, 4, 3,
			},
		}},
		{"an old member list does not bring an initial member back", 55249936205956422, 77, []Fault{
			{8, Partition, 7, 17}, {44, SpecChanges, 7, 10}, {76, DataLost, 1, 4},
		}},
		{"a record of lease voters without names is none", 33572029950263030, 113, []Fault{
			{2, NodeDown, 4, 18}, {9, NodeDown, 7, 18}, {33, Partition, 0, 19}, {83, NodeGone, 7, 8}, {112, DiskLost, 3, 2},
		}},
		{"what was staged for a place that is gone is not needed", 5200355399482351, 77, []Fault{
			{13, RestoreAsked, 6, 13}, {23, OpFails, 2, 14}, {25, DiesBefore, 3, 18}, {26, StoreDown, 1, 8}, {
				28, StoreDown, 3, 15,
			}, {41, NodeFails, 1, 23}, {45, NodeDown, 6, 12}, {64, NodeFails, 6, 16}, {76, RestoreAsked, 4, 25},
		}},
		{"a second restore leaves alone what the first is still to change over to", 9020818, 76, []Fault{
			{12, RestoreAsked, 0, 4}, {14, NodeFails, 6, 25}, {43, Rival, 7, 21}, {49, Rival, 1, 12}, {50, NodeDown, 6, 15}, {
				56, NodeFails, 1, 25,
			}, {72, RestoreAsked, 1, 25},
		}},
		{"a second restore before the last node has changed over to the first", 20001569, 53, []Fault{
			{16, OpFails, 6, 10}, {23, RestoreAsked, 5, 17}, {28, OpDelayed, 7, 8}, {34, NodeDown, 4, 16}, {
				47, NodeFails, 4, 14,
			}, {48, RestoreAsked, 5, 19},
		}},
		{"an initial member that was to leave makes the majority", 33659032559872826, 40, []Fault{
			{2, DiskHung, 1, 21}, {4, RestoreAsked, 4, 13}, {13, DiskHangs, 0, 14}, {16, StoreDown, 4, 12}, {
				22, NodeFails, 3, 18,
			}, {34, Partition, 7, 22}, {39, DiskLost, 2, 13},
		}},
		{"a restore whose data is lost never began", 33659032559876750, 43, []Fault{
			{24, RestoreAsked, 2, 12}, {25, DiesAfter, 1, 18}, {42, DiskLost, 0, 12},
		}},
		{"without lease voters the spec of a restore is not written", 1795349144072953309, 77, []Fault{
			{5, DataLost, 0, 1}, {13, DataCorrupt, 5, 6}, {20, RestoreAsked, 5, 4}, {26, NodeGone, 4, 18}, {58, DiskLost, 6, 12},
			{60, DiskLost, 1, 23}, {76, SpecChanges, 1, 11},
		}},
		{"the lease of what a restore ended is kept while its lease voters cannot grant one", 1795349144072956240, 89,
			[]Fault{{30, RestoreAsked, 6, 16}, {33, DiskHangs, 1, 22}, {75, NodeGone, 7, 10}, {88, StoreDown, 1, 19}}},
		{"a voter with an old record takes the present one before it is recorded", 900959, 75, []Fault{
			{3, StoreDown, 6, 4}, {7, OpFails, 1, 9}, {10, OrderLate, 4, 5}, {38, DiesAfter, 2, 12}, {40, OpLost, 3, 6}, {
				45, DiesAfter, 6, 15,
			}, {57, SpecChanges, 4, 17}, {72, DiesAfter, 4, 22},
		}},
		{"nothing is bootstrapped over data that was restored", 374, 27, []Fault{
			{3, StoreStale, 4, 12}, {7, DiskHangs, 1, 4}, {21, RestoreAsked, 0, 16}, {26, StoreApart, 3, 1},
		}},
		{"the promise of a restore is not taken for one that the node never voted", 1795403906449, 21, []Fault{
			{10, RestoreAsked, 3, 23}, {16, StoreCut, 4, 21},
		}},
		{"a promise that was given beside another store does not show that the node never voted", 1795403905421, 24, []Fault{
			{3, DiskLost, 2, 13}, {15, StoreCut, 7, 8}, {17, StoresApart, 0, 8},
		}},
		{"a node of which the store knows nothing may have begun by another", 1795403906250, 32, []Fault{
			{3, StoreDown, 6, 9}, {4, OpLost, 6, 8}, {13, Partition, 2, 1}, {22, StoresApart, 6, 17}, {29, SpecChanges, 6, 6},
		}},
		{"the same, and who begins has promised nothing", 1795700047968, 22, []Fault{
			{1, MessagesLost, 4, 14}, {10, Partition, 7, 23}, {19, StoresApart, 2, 8},
		}},
		{"a node that answers has promised beside another store", 1795700070688, 39, []Fault{
			{0, OpDelayed, 5, 23}, {1, NodeFails, 5, 17}, {7, DiskHangs, 6, 15}, {23, OneWay, 4, 4}, {27, StoresApart, 6, 10}, {
				33, DiesAfter, 7, 13,
			},
		}},
		{"a backup lies where it was written, whatever store the node has since", 1795403905901, 70, []Fault{
			{12, SpecChanges, 6, 4}, {15, Freezes, 3, 12}, {16, OpDelayed, 1, 11}, {19, DataLost, 2, 18}, {28, DiskHangs, 1, 11},
			{37, DiesBefore, 0, 23}, {54, Freezes, 4, 16}, {63, StoreCut, 5, 18}, {68, StoresApart, 1, 16},
		}},
		{"half of four voters have lost what was restored", 1795403906069, 49, []Fault{
			{35, NodeDown, 4, 25}, {36, NodeDown, 7, 10}, {37, RestoreAsked, 4, 16}, {47, StoresApart, 1, 2},
		}},
		{"one of three voters has what was restored", 1795500006188, 32, []Fault{
			{11, RestoreAsked, 1, 18}, {15, StoreStale, 6, 23}, {16, CutOff, 5, 23},
		}},
		{"after a restore that was lost nothing is bootstrapped", 1795500001705, 28, []Fault{
			{0, RestoreAsked, 4, 18}, {3, NodeFails, 3, 15}, {5, OneWay, 3, 15}, {25, DiskLost, 5, 3}, {26, DiskLost, 2, 8},
		}},
		{"nor after one that had begun", 1795500006609, 31, []Fault{
			{0, RestoreAsked, 0, 18}, {2, StoreDown, 6, 13}, {16, OrderLate, 7, 14}, {19, MessagesLost, 6, 25}, {
				29, DiskLost, 1, 11,
			},
		}},
		{"after a restore that never began another one can be asked for", 1795700032083, 71, []Fault{
			{25, OpHalf, 1, 23}, {27, OpHalf, 0, 5}, {35, DataCorrupt, 7, 9}, {39, RestoreAsked, 4, 12}, {42, DiskLost, 0, 14},
			{49, Partition, 3, 12}, {69, RestoreAsked, 2, 7},
		}},
		{"what runs without a record gets none over a restore that is yet to begin", 1795700013412, 33, []Fault{
			{1, StoreApart, 3, 23}, {12, SpecChanges, 5, 24}, {22, StoreCut, 0, 5}, {26, StoreApart, 6, 2}, {
				28, RestoreAsked, 5, 6,
			}, {30, NodeFails, 3, 10},
		}},
		{"what is started after a restore was decided has ended before", 1795700059056, 9, []Fault{
			{4, RestoreAsked, 5, 10}, {8, StoreDown, 5, 24},
		}},
		{"an order does not outlive the daemon that was to obey", 1795700013453, 25, []Fault{
			{0, OrderLate, 4, 21}, {7, OrderLate, 2, 7}, {15, DiskLost, 3, 25},
		}},
		{"an order that comes late finds its place taken away", 1795700062224, 32, []Fault{
			{7, DiskHangs, 3, 10}, {16, NodeGone, 5, 9}, {20, OpDelayed, 5, 18}, {23, OrderLate, 0, 4},
		}},
		{"data without a state file stays where the disk hangs", 1795700018761, 53, []Fault{
			{17, DiskHung, 3, 10}, {52, StateLost, 3, 21},
		}},
		{"a node that is cut off twice has been so since the first time", 1795700009771, 25, []Fault{
			{13, CutOff, 0, 12}, {18, NodeDown, 0, 2}, {21, CutOff, 6, 4},
		}},
		{"who was unhealthy when somebody coordinated last may have been well since", 1795900005594, 45, []Fault{
			{16, NodeDown, 7, 14}, {20, MessagesLost, 3, 25}, {43, DataCorrupt, 7, 15},
		}},
		{"of what was before a restore nothing is left, and the restore had begun", 1795900010157, 52, []Fault{
			{3, Freezes, 6, 23}, {8, RestoreAsked, 7, 8}, {49, DiskLost, 1, 14}, {50, RestoreAsked, 2, 16},
		}},
		{"a restored voter whose start was cut short has run nothing", 1795900030813, 53, []Fault{
			{9, RestoreAsked, 5, 4}, {11, Partition, 7, 14}, {14, Partition, 0, 23}, {24, Rival, 6, 18}, {27, DiesBefore, 7, 1},
			{28, StoresApart, 1, 16}, {52, OpHalf, 3, 16},
		}},
		{"the store that had a backup was emptied unseen", 1795900043192, 36, []Fault{
			{15, StoreCut, 6, 21}, {19, StoreEmptied, 3, 24}, {21, StoresApart, 3, 16}, {31, NodeDown, 7, 14},
		}},
		{"by the record in the store a bootstrap is under way", 1795900033593, 30, []Fault{
			{1, Freezes, 6, 25}, {9, NodeFails, 5, 13}, {18, RestoreAsked, 2, 19}, {24, StoresApart, 2, 7}, {
				29, DataLost, 0, 23,
			},
		}},
		{"no daemon starts on a machine that stands still", 1796000006278, 52, []Fault{
			{44, Freezes, 7, 20}, {46, TimePasses, 1, 7}, {51, DaemonDies, 1, 4},
		}},
		{"what is staged again is waited for", 1795900079559, 37, []Fault{
			{23, RestoreAsked, 2, 25}, {28, StoreStale, 4, 15}, {32, StoreApart, 4, 2},
		}},
		{"what can never begin is shown by what is staged, until a newer record shows it", 1796000026929, 79, []Fault{
			{9, PromotedGone, 3, 21}, {26, OpHalf, 7, 15}, {31, SpecChanges, 2, 3}, {38, OpLost, 4, 19}, {40, OpHalf, 3, 4},
			{41, NodeDown, 7, 23}, {46, RestoreAsked, 6, 17}, {51, OpLost, 5, 18}, {53, Rival, 3, 25},
			{65, ClockJumps, 4, 25}, {67, StoresApart, 4, 2}, {71, Rival, 6, 11},
			{72, DiesAfter, 2, 19}, {73, SpecChanges, 6, 21}, {78, StoreApart, 1, 2},
		}},
		{"a restored member is not stopped by a store that does not know it", 1796000031467, 32, []Fault{
			{23, RestoreAsked, 0, 4}, {30, OrderLate, 6, 20}, {31, StoresApart, 1, 2},
		}},
		{"by an older record nobody changes over", 1796000045079, 83, []Fault{
			{8, Partition, 4, 14}, {10, DiesAfter, 6, 16}, {44, RestoreAsked, 4, 9}, {60, RestoreAsked, 4, 4},
			{70, StoreDown, 5, 20}, {81, StoresApart, 6, 23},
		}},
		{"a newer record of what was promised bootstraps nothing", 1796100008515, 68, []Fault{
			{3, StoreStale, 6, 25}, {9, StoresApart, 7, 25}, {10, Rival, 3, 14}, {13, Partition, 3, 20},
			{15, RestoreAsked, 4, 10}, {19, OpDelayed, 2, 14}, {21, StoresApart, 4, 7}, {25, DiesBefore, 2, 12},
			{39, NodeFails, 0, 2}, {41, PauseFor, 1, 17}, {66, StoresApart, 4, 16},
		}},
		{"who is gone may run what was restored, with and without a spec", 1796100021896, 44, []Fault{
			{13, StoreEmptied, 3, 9}, {15, StoreCut, 6, 18}, {22, DiskHangs, 0, 8}, {29, Partition, 2, 5},
			{35, NodeGone, 2, 4}, {36, RestoreAsked, 1, 7}, {43, StoresApart, 3, 23},
		}},
		{"no restore is decided before what runs has a record", 1796200016918, 61, []Fault{
			{13, StoresApart, 1, 25}, {20, StoreEmptied, 1, 3}, {33, OpFails, 3, 9}, {36, OpFails, 0, 6},
			{40, Partition, 3, 21}, {60, RestoreAsked, 0, 16},
		}},
		{"who takes no orders by an older lease stages nothing for it", 1796200039477, 42, []Fault{
			{19, RestoreAsked, 2, 12}, {23, Partition, 6, 24}, {31, DiesBefore, 6, 10}, {34, RestoreAsked, 7, 17},
			{41, StateLost, 4, 25},
		}},
		{"nor does one whose promise never got a record", 1796200097283, 45, []Fault{
			{0, RestoreAsked, 4, 8}, {9, DataLost, 0, 8}, {28, StoreEmptied, 5, 24}, {31, SpecChanges, 2, 2},
			{44, RestoreAsked, 0, 21},
		}},
		{"a bootstrap waits for a disk that hangs", 1796200146171, 36, []Fault{
			{0, NodeDown, 7, 8}, {1, Rival, 7, 6}, {3, StoreStale, 6, 23}, {10, DiskHangs, 5, 15}, {13, StoreCut, 6, 15},
			{18, OpHalf, 6, 16}, {20, DiskHangs, 2, 18}, {26, StoreApart, 0, 8}, {35, DiskHung, 0, 23},
		}},
		{"a voter whose disk hangs before it is recorded is removed", 1796200167520, 34, []Fault{
			{15, DiskHangs, 3, 1}, {20, StateLost, 4, 20}, {33, DiskHung, 4, 2},
		}},
		{"the record of the lease is newer than what is observed", 1796300096198, 68, []Fault{
			{30, DiskHung, 0, 3}, {53, RestoreAsked, 4, 15}, {56, SpecChanges, 2, 8}, {67, StateLost, 1, 17},
		}},
		{"to be well for a moment that nobody sees begins no grace", 1796300085925, 41, []Fault{
			{37, Freezes, 2, 8}, {40, CutOff, 2, 6},
		}},
		{"what is staged is not given up by a store that not all share", 1797100013387, 74, []Fault{
			{13, Freezes, 0, 25}, {14, NodeGone, 3, 9}, {17, StoreCut, 7, 25}, {21, RestoreAsked, 1, 16},
			{57, RestoreAsked, 1, 19}, {65, Rival, 2, 11}, {67, StoresApart, 7, 16}, {73, Freezes, 7, 15},
		}},
		{"a crashing member is not well between two observations", 2767, 45, []Fault{
			{33, PauseFor, 5, 14}, {34, DataCorrupt, 1, 24}, {44, StoppedByHand, 6, 22},
		}},
		{"what a slow store is asked for is given up with it", 24009924696896600, 38, []Fault{
			{3, DaemonDies, 0, 8}, {25, StoreCut, 7, 4}, {28, RestoreAsked, 7, 15}, {29, StoreSlow, 4, 14},
			{34, StoresApart, 2, 13},
		}},
		{"a backup in a slow store counts as long as it is the node's", 51196508259916291, 53, []Fault{
			{13, DiesAfter, 7, 18}, {25, RestoreAsked, 6, 12}, {35, DiesAfter, 7, 17}, {40, StoreSlow, 7, 14},
			{50, StoreApart, 7, 23},
		}},
		{"a bootstrap goes on behind the record of a restore that never began", 1998686886337551, 62, []Fault{
			{3, StoreDown, 1, 18}, {6, OrderLate, 7, 12}, {7, StoresApart, 3, 23}, {12, DiskLost, 2, 11},
			{18, OrderLate, 5, 5}, {20, OpDelayed, 3, 20}, {22, Freezes, 1, 25}, {23, NodeFails, 2, 11}, {27, OpFails, 1, 1},
			{28, OrderLate, 1, 6}, {32, Freezes, 6, 23}, {34, StoreApart, 7, 13}, {39, OrderLate, 0, 1},
			{41, SpecChanges, 3, 25}, {43, OrderLate, 0, 24}, {48, StoreCut, 0, 11}, {50, StoreStale, 4, 24},
			{54, Freezes, 3, 1}, {55, CutOff, 6, 3}, {59, RestoreAsked, 7, 24}, {61, StoreApart, 3, 10},
		}},
		{"records are listed by their number", 23267034568999795, 76, []Fault{
			{1, StoreApart, 4, 7}, {9, StoreSlow, 0, 23}, {16, RestoreAsked, 4, 24}, {18, StoreEmptied, 5, 23},
			{24, StoreDown, 3, 23}, {26, RestoreAsked, 1, 1},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Replay(tt.seed, Config{Record: true}, tt.faults, tt.steps); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReplayOfTheFaultsOfASeed makes sure that Run is Replay.
func TestReplayOfTheFaultsOfASeed(t *testing.T) {
	for seed := range uint64(10) {
		faults, steps := Faults(seed)
		a, errA := Run(seed, Config{})
		b, errB := Replay(seed, Config{}, faults, steps)
		if fmt.Sprint(a, errA) != fmt.Sprint(b, errB) {
			t.Errorf("seed %d: %v %v, then %v %v", seed, a, errA, b, errB)
		}
	}
}
