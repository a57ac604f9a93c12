package plan

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func (c checker) stage(op *RestoreStage) error {
	n, err := c.node(op.Node)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(op.Voters, func(s cluster.InitialMember) bool { return s.Name == n.Name }) {
		return unsafe("restore", "%s is not one of the voters", op.Node)
	}
	if recordedToken(c.obs, op.Token) {
		return unsafe("restore", "incarnation %s has a record already", op.Token)
	}
	if s := n.Staged; s != nil && s.Token != op.Token && s.Token != op.Replaces {
		return &StaleError{Want: "staged data of incarnation " + strconv.Quote(string(op.Replaces)),
			Got: strconv.Quote(string(s.Token))}
	}
	if s := n.Staged; s != nil && c.needed(n, s.Token) {
		return unsafe("restore", "the data that %s has staged is needed for incarnation %s", op.Node, s.Token)
	}
	return c.above(op.Revision)
}

func (c checker) discardStaged(op *RestoreDiscard) error {
	n, err := c.node(op.Node)
	if err != nil {
		return err
	}
	if c.needed(n, op.Token) {
		return unsafe("restore", "incarnation %s has a record: its data is needed", op.Token)
	}
	for _, o := range c.obs.Nodes {
		promised := o.Prepared != nil && o.Prepared.Token == op.Token && o.Prepared.Backup != ""
		runs := o.Assigned != nil && o.Assigned.Token == op.Token || o.Disk.Token == op.Token
		if c.number(op.Token) == 0 && (promised || runs) {
			return unsafe("restore", "%s has switched to incarnation %s, whose record is in another store", o.Name, op.Token)
		}
	}
	return nil
}

// above makes sure that a restored cluster begins with a revision that nobody
// has seen.
func (c checker) above(r cluster.Revision) error {
	if problem := c.obs.Store.RevisionProblem; problem != "" {
		return unsafe("restore", "it is unknown which revisions clients have seen: %s", problem)
	}
	top := cluster.MaxLeap
	far := func(n cluster.Node) bool { return n.Revision >= cluster.MaxLeap/2 }
	if c.obs.Revision >= cluster.MaxLeap/2 || slices.ContainsFunc(c.obs.Nodes, far) {
		top = cluster.MaxBegin
	}
	if r > top {
		return unsafe("restore", "this cluster is not restored above revision %d, it would begin with %d", top, r)
	}
	for _, seen := range c.seen() {
		if r <= seen {
			return unsafe("restore", "revision %d was seen, the restored cluster would begin with %d", seen, r)
		}
	}
	return nil
}

// seen returns all revisions that clients may have seen, the highest first. It does not
// ask Observation.HighWater, by which the rules decide.
func (c checker) seen() (list []cluster.Revision) {
	for _, v := range c.obs.Views {
		list = append(list, v.Revision)
	}
	for _, n := range c.obs.Nodes {
		list = append(list, n.Revision)
	}
	for _, i := range c.obs.Store.Incarnations {
		if i.Restored != nil {
			list = append(list, i.Restored.Revision)
		}
	}
	if src := c.obs.Store.Source; src != nil {
		list = append(list, src.Revision, src.Seen)
	}
	list = append(list, c.obs.Revision, c.obs.Store.Revision)
	slices.Sort(list)
	slices.Reverse(list)
	return list
}

// recordedBefore reports whether the store has a record of the incarnation with a
// lower number.
func (c checker) recordedBefore(token cluster.Token, number int) bool {
	for _, i := range c.obs.Store.Incarnations {
		if i.Token == token && i.Number < number {
			return true
		}
	}
	return false
}

func (c checker) createRestored(op *IncarnationCreate) error {
	if op.Backup == "" || op.Request == "" || op.Revision <= 0 {
		return unsafe("restore", "request, backup and revision must be given together")
	}
	if Done(c.obs, op) {
		return nil // it has decided
	}
	if recordedToken(c.obs, op.Token) {
		return &StaleError{Want: "no record of incarnation " + string(op.Token), Got: "one of another number"}
	}
	if !slices.ContainsFunc(c.obs.Store.Requests, func(r cluster.Request) bool { return r.Name == op.Request }) {
		return unsafe("restore", "%s is not in the queue: it was cancelled, or is closed", op.Request)
	}
	if problem := c.obs.Store.RecordsProblem; problem != "" {
		return unsafe("restore", "the store has incarnation records that cannot be read: %s", problem)
	}
	next := 1
	if rec := newestRecord(c.obs); rec != nil {
		next = rec.Number + 1
	}
	if op.Number != next || !c.obs.Store.Reachable {
		return &StaleError{Want: fmt.Sprintf("incarnation %d to be the next", op.Number), Got: fmt.Sprintf("%d", next)}
	}
	for _, i := range c.obs.Store.Incarnations {
		if i.Restored != nil && i.Restored.Request == op.Request {
			return unsafe("restore", "request %s was carried out by incarnation %d", op.Request, i.Number)
		}
	}
	for _, initialMember := range op.Voters {
		n, err := c.node(initialMember.Name)
		if err != nil {
			return err
		}
		if s := n.Staged; !n.Reachable || s == nil || !s.Ready || s.Token != op.Token || s.Backup != op.Backup ||
			s.Revision != op.Revision || s.Version != op.Version || !reflect.DeepEqual(s.Voters, op.Voters) {
			return unsafe("restore", "%s has not restored %s", initialMember.Name, op.Backup)
		}
	}
	return c.above(op.Revision)
}

func (c checker) changeOver(op *RestoreSwitch) error {
	n, err := c.node(op.Node)
	if err != nil {
		return err
	}
	rec := newestRecord(c.obs)
	if rec == nil || rec.Token != op.Token || rec.Restored == nil {
		return unsafe("restore", "incarnation %s is not the newest, or was not restored", op.Token)
	}
	if a := n.Assigned; a != nil && a.Token != op.Token && a.Token != op.ExpectToken {
		return &StaleError{Want: "incarnation " + string(op.ExpectToken), Got: string(a.Token)}
	}
	initialMember := slices.ContainsFunc(rec.Voters, func(s cluster.InitialMember) bool { return s.Name == n.Name })
	staged := n.Staged != nil && n.Staged.Token == op.Token
	if !staged && n.Assigned != nil && n.Assigned.Token != op.Token {
		if c.obs.Store.RecordsProblem != "" || !c.recordedBefore(n.Assigned.Token, rec.Number) {
			return unsafe("restore", "no record shows that incarnation %s, which %s runs, was before %s", n.Assigned.Token,
				op.Node, op.Token)
		}
		if c.obs.Token != op.Token || c.obs.Leader == 0 {
			return unsafe("restore", "nothing replaces what %s runs yet", op.Node)
		}
	}
	if staged && !c.needed(n, op.Token) {
		return unsafe("restore", "%s has lost its place in incarnation %s", op.Node, op.Token)
	}
	if staged && (!initialMember || !n.Staged.Ready) {
		return unsafe("restore", "%s is not a voter with its data ready", op.Node)
	}
	return nil
}

// followsNothing reports whether an incarnation has a record, and those after it are of
// restores that never began, and never can.
func (c checker) followsNothing(token cluster.Token) bool {
	list := c.obs.Store.Incarnations
	if c.obs.Store.RecordsProblem != "" || len(list) == 0 || list[len(list)-1].Token == token {
		return false
	}
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Token == token {
			return true
		}
		if !c.neverMajority(list[i]) {
			return false
		}
	}
	return false
}

// restoredAfter reports whether a restored incarnation may have begun, and its first revision
// shows that it is later than what runs.
func (c checker) restoredAfter(rec cluster.Incarnation) bool {
	if rec.Restored == nil || c.neverMajority(rec) {
		return false
	}
	answer := 0
	for _, o := range c.obs.Nodes {
		ours := o.Disk.Token == c.obs.Token || o.Assigned != nil && o.Assigned.Token == c.obs.Token
		if ours && rec.Restored.Revision-o.Revision < aboveAll/2 {
			return false
		}
		if o.Reachable && o.Disk.State != cluster.DiskUnreadable && o.Disk.Token != rec.Token &&
			(o.Assigned == nil || o.Assigned.Token != rec.Token) {
			answer++
		}
	}
	return answer < len(c.obs.Nodes) && rec.Restored.Revision-c.obs.Revision >= aboveAll/2
}

// openInstead says which node may let clients in to an incarnation that has a record, while what runs
// has none and no node lets any in to it: one that does not answer or run, and did so when it was seen
// last; and where all members of what runs are known to be closed, one that does not answer and may have
// begun to. It is empty for none.
func (c checker) openInstead() string {
	if len(c.obs.Store.Incarnations) == 0 || recordedToken(c.obs, c.obs.Token) {
		return ""
	}
	closed := 0
	for _, n := range c.obs.Nodes {
		if n.Assigned == nil || n.Assigned.Token != c.obs.Token {
			continue
		}
		if !n.Assigned.Quarantined {
			return ""
		}
		if slices.ContainsFunc(c.obs.Members, func(m cluster.Member) bool { return m.Name == n.Name }) {
			closed++
		}
	}
	for _, n := range c.obs.Nodes {
		a := n.Assigned
		there := a != nil && recordedToken(c.obs, a.Token)
		switch {
		case there && n.Reachable && (a.Stopped || n.Process.State == cluster.ProcessRunning):
		case there && !a.Quarantined:
			return fmt.Sprintf("%s does not answer or run, and let clients in to incarnation %s", n.Name, a.Token)
		case n.Reachable || closed < len(c.obs.Members):
		case there, a == nil && n.Disk.State != cluster.DiskEmpty:
			return fmt.Sprintf("%s does not answer, and may let clients in to an incarnation that has a record", n.Name)
		}
	}
	return ""
}

// recordAgain makes sure that a second record of what runs replaces nothing that
// ever began.
func (c checker) recordAgain(op *IncarnationCreate) error {
	newest := newestRecord(c.obs)
	if newest == nil || newest.Token == op.Token {
		return nil
	}
	if !recordedToken(c.obs, op.Token) {
		for _, n := range c.obs.Nodes {
			if newest.Restored != nil && holds(n, newest.Token) && !c.neverMajority(*newest) {
				return unsafe("restore", "%s has what incarnation %s is to begin with", n.Name, newest.Token)
			}
		}
		if why := c.openInstead(); why != "" {
			return unsafe("restore", "%s: %s lets none in", why, op.Token)
		}
		if c.restoredAfter(*newest) {
			return unsafe("restore", "incarnation %s, which was to begin above all that %s has reached, may have begun", newest.Token,
				op.Token)
		}
		return nil
	}
	if r := newest.Restored; r != nil && c.obs.Store.Revision >= r.Revision {
		return unsafe("restore", "revision %d was seen, incarnation %s began with %d: it served", c.obs.Store.Revision,
			newest.Token, r.Revision)
	}
	lost := c.neverMajority(*newest)
	for _, n := range c.obs.Nodes {
		if r := newest.Restored; r != nil && n.Revision >= r.Revision && !(lost && holds(n, newest.Token)) {
			return unsafe("restore", "%s has seen revision %d, incarnation %s began with %d: it served", n.Name, n.Revision,
				newest.Token, r.Revision)
		}
		for _, s := range n.SetAside {
			if s.Name == string(newest.Token) || strings.HasPrefix(s.Name, string(newest.Token)+".") {
				return unsafe("restore", "%s has set data of incarnation %s aside, which has a later record", n.Name, newest.Token)
			}
		}
		runs := n.Assigned != nil && n.Assigned.Token == newest.Token || n.Disk.Token == newest.Token
		if (runs || holds(n, newest.Token)) && !lost {
			return unsafe("restore", "%s has incarnation %s, which has a later record", n.Name, newest.Token)
		}
	}
	return nil
}
