package plan_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// TestArgvOfEachKind pins the command line of every operation: people and
// scripts rely on it, and so does the wire.
func TestArgvOfEachKind(t *testing.T) {
	v := etcdversion.Must("3.6.16")
	initialMember := cluster.InitialMember{Name: "a", PeerURLs: []string{"https://a:2380", "https://10.0.0.1:2380"}}
	tests := []struct {
		op   plan.Operation
		want string
	}{
		{&plan.MemberPrepare{Node: "a", Token: "t", Version: v, Voters: []cluster.InitialMember{initialMember}},
			"etcdadm member prepare --node=a --token=t --version=3.6.16 --voter=a=https://a:2380,https://10.0.0.1:2380"},
		{&plan.IncarnationCreate{Number: 2, Token: "t", Version: v, Voters: []cluster.InitialMember{initialMember}},
			"etcdadm incarnation create --number=2 --token=t --version=3.6.16 --voter=a=https://a:2380,https://10.0.0.1:2380"},
		{&plan.IncarnationCreate{
			Number: 2, Token: "t", Version: v, Voters: []cluster.InitialMember{initialMember}, Request: "r", Backup: "b",
			Revision: 1 << 40, Before: []cluster.NodeName{"a"},
		}, "etcdadm incarnation create --number=2 --token=t --version=3.6.16 " +
			"--voter=a=https://a:2380,https://10.0.0.1:2380 --request=r --backup=b --revision=1099511627776 --before=a"},
		{&plan.RestoreStage{Node: "a", Request: "r", Backup: "b", Token: "t", Version: v, Revision: 7,
			Voters: []cluster.InitialMember{initialMember}, Lost: []cluster.NodeName{"b"}, Replaces: "s"},
			"etcdadm restore stage --node=a --request=r --backup=b --token=t --version=3.6.16 --revision=7 " +
				"--voter=a=https://a:2380,https://10.0.0.1:2380 --lost=b --replaces=s"},
		{&plan.RestoreSwitch{Node: "a", Token: "t", ExpectToken: "s"},
			"etcdadm restore switch --node=a --token=t --expect-token=s"},
		{&plan.RestoreDiscard{Node: "a", Token: "t"}, "etcdadm restore discard --node=a --token=t"},
		{&plan.RequestClose{Name: "r", Outcome: plan.OutcomeRefused, Reason: "no such backup"},
			"etcdadm request close --name=r --outcome=refused '--reason=no such backup'"},
		{&plan.IncarnationMark{Token: "t"}, "etcdadm incarnation mark --token=t"},
		{&plan.SpecWrite{MemberCount: 3, EtcdVersion: etcdversion.Must("3.6.16")},
			"etcdadm spec write --member-count=3 --etcd-version=3.6.16"},
		{&plan.MemberStart{Node: "a", Token: "t", Mode: plan.StartRestart, Version: v},
			"etcdadm member start --node=a --token=t --mode=restart --version=3.6.16"},
		{&plan.MemberStart{Node: "a", Token: "t", Mode: plan.StartRestart, Version: v, AcceptData: 10},
			"etcdadm member start --node=a --token=t --mode=restart --version=3.6.16 --accept-data=a"},
		{&plan.MemberChangeVersion{
			Node: "b", ExpectToken: "t", ExpectMemberID: 2, ExpectVersion: etcdversion.Must("3.5.35"),
			To: etcdversion.Must("3.6.16"),
		}, "etcdadm member change-version --node=b --expect-token=t --expect-member-id=2 --expect-version=3.5.35 " +
			"--to=3.6.16"},
		{&plan.MemberChangeVersion{
			Node: "b", ExpectToken: "t", ExpectMemberID: 2, ExpectVersion: etcdversion.Must("3.5.35"),
			To: etcdversion.Must("3.6.16"), AcceptRisk: "tried on a copy",
			AcceptHazards: []cluster.HazardKind{cluster.HazardMembers, cluster.HazardV2Log},
		}, "etcdadm member change-version --node=b --expect-token=t --expect-member-id=2 --expect-version=3.5.35 " +
			"--to=3.6.16 '--accept-version-risk=tried on a copy' --accept-hazard=members --accept-hazard=v2-log"},
		{&plan.MemberForceSnapshot{Node: "b", ExpectToken: "t", ExpectMemberID: 2},
			"etcdadm member force-snapshot --node=b --expect-token=t --expect-member-id=2"},
		{&plan.MemberDrain{Node: "b", ExpectToken: "t", ExpectMemberID: 2},
			"etcdadm member drain --node=b --expect-token=t --expect-member-id=2"},
		{&plan.DowngradeEnable{To: etcdversion.Must("3.5.0"), ExpectClusterVersion: etcdversion.Must("3.6.0")},
			"etcdadm downgrade enable --to=3.5.0 --expect-cluster-version=3.6.0"},
		{&plan.DowngradeCancel{ExpectTo: etcdversion.Must("3.5.0")}, "etcdadm downgrade cancel --expect-to=3.5.0"},
		{&plan.MemberStop{Node: "a", ExpectToken: "t", ExpectMemberID: 0x8e9e05c52164694d},
			"etcdadm member stop --node=a --expect-token=t --expect-member-id=8e9e05c52164694d"},
		{&plan.AddLearner{Node: "a", PeerURLs: []string{"http://u1:1", "https://u2:2"}, ExpectVoters: 3},
			"etcdadm member add-learner --node=a --peer-url=http://u1:1 --peer-url=https://u2:2 --expect-voters=3"},
		{&plan.Promote{Name: "a", ExpectVoters: 3}, "etcdadm member promote --name=a --expect-voters=3"},
		{&plan.Remove{ID: 10, ExpectVoters: 3}, "etcdadm member remove --id=a --expect-voters=3"},
		{&plan.MemberUpdate{ID: 10, PeerURLs: []string{"https://a:2380"}, ExpectPeerURLs: []string{"http://a:2380"}},
			"etcdadm member update --id=a --peer-url=https://a:2380 --expect-peer-url=http://a:2380"},
		{&plan.MoveLeader{To: "a"}, "etcdadm member move-leader --to=a"},
		{&plan.LeaseVotersWrite{Token: "t", Names: []cluster.NodeName{"a", "b"}, Expect: []cluster.NodeName{"a"}},
			"etcdadm lease-voters write --token=t --name=a --name=b --expect=a"},
		{&plan.LeaseVotersRecover{
			Node: "a", Token: "t", Term: 1 << 40, Names: []cluster.NodeName{"a", "b"}, Expect: []cluster.NodeName{"a"},
			Lost: []cluster.NodeName{"c"},
		}, "etcdadm lease-voters recover --node=a --token=t --term=1099511627776 --name=a --name=b --expect=a --lost=c"},
		{&plan.LeaseVotersAdopt{Node: "a", Token: "t", Names: []cluster.NodeName{"a", "b"}},
			"etcdadm lease-voters adopt --node=a --token=t --name=a --name=b"},
		{&plan.DataSetAside{Node: "a", Token: "t", ExpectMemberID: 1},
			"etcdadm data set-aside --node=a --token=t --expect-member-id=1"},
		{&plan.DataDiscard{Node: "a", Name: "x", ExpectAt: "2026-11-20T11:00:00.5Z"},
			"etcdadm data discard --node=a --name=x --expect-at=2026-11-20T11:00:00.5Z"},
		{&plan.QuarantineSet{Node: "a"}, "etcdadm quarantine set --node=a"},
		{&plan.QuarantineLift{Node: "a"}, "etcdadm quarantine lift --node=a"},
		{&plan.BackupTake{Node: "a", Reason: "it's time"}, `etcdadm backup take --node=a '--reason=it'\''s time'`},
		{&plan.BackupVerify{Node: "a", Name: "b"}, "etcdadm backup verify --node=a --name=b"},
		{&plan.BackupDrill{Node: "a", Name: "b"}, "etcdadm backup drill --node=a --name=b"},
		{&plan.BackupPrune{Remove: []string{"2026-11-20T11:00:00Z-000001", "b"}},
			"etcdadm backup prune --remove=2026-11-20T11:00:00Z-000001 --remove=b"},
	}
	kinds := map[string]bool{}
	for _, tt := range tests {
		kinds[plan.KindOf(tt.op).Path] = true
	}
	if len(kinds) != len(plan.Kinds()) {
		t.Errorf("%d kinds, tests of %d", len(plan.Kinds()), len(kinds))
	}
	for _, tt := range tests {
		if got := plan.Line(tt.op); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
		back, err := plan.Parse(plan.Argv(tt.op))
		if err != nil || !reflect.DeepEqual(back, tt.op) {
			t.Errorf("%s came back as %#v, %v", tt.want, back, err)
		}
		if plan.KindOf(tt.op).Path != strings.Join(plan.Argv(tt.op)[:2], " ") {
			t.Errorf("%s is said to be a %q", tt.want, plan.KindOf(tt.op).Path)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ line, want string }{
		{"", "is not an operation"},
		{"member", "is not an operation"},
		{"member explode", "is not an operation"},
		{"sh -c reboot", "is not an operation"},
		{"member start --node", "is not of the form"},
		{"member start node=a", "is not of the form"},
		{"member start -node=a", "is not of the form"},
		{"member start -- --node=a", "is not of the form"},
		{"incarnation mark --token=t --force=true", "unknown flag --force"},
		{"incarnation mark --token=t --token=u", "given twice"},
		{"incarnation mark", "--token is missing"},
		{"backup prune" + strings.Repeat(" --remove=b", 3000), "3000 arguments"},
		{"incarnation mark --token=../etc", "--token: "},
		{"incarnation create --number=one --token=t", "not a whole number"},
		{"member promote --name=d --expect-voters=0", "--expect-voters is missing"},
		{"member remove --id=xyz", "not a hexadecimal number"},
		{"member remove --id=3", "--expect-voters is missing"},
		{"member start --node=a --token=t --mode=force --version=3.6.16", "--mode=force is not"},
		{"member start --node=a --token=t --mode=new --version=three", "is not of the form 3.6.16"},
		{"member start --node=a/b --token=t --mode=new --version=3.6.16", "--node: "},
		{"member prepare --node=a --token=t --version=3.6.16 --voter=a", "is not of the form NAME=URL"},
		{"member prepare --node=a --token=t --version=3.6.16", "--voter is missing"},
		{"backup prune", "--remove is missing"},
		{"backup prune --remove=a --remove=../a", "--remove: "},
		{"backup prune --remove=..", "--remove: "},
		{"data discard --node=a --name=a/b", "--name: "},
		{"data set-aside --node=a --token=../../etc", "--token: "},
		{"lease-voters write --token=t --name=a --name=a/b", "--name: "},
		{"lease-voters write --token=t --name=a --expect=a/b", "--expect: "},
		{"member add-learner --node=a --expect-voters=3 --peer-url=a:2380", "--peer-url: "},
		{"member add-learner --node=a --expect-voters=3 --peer-url=https://a", "--peer-url: "},
		{"member prepare --node=a --token=t --version=3.6.16 --voter=a=ftp://a:2380", "--voter: "},
		{"member start --node=a --token=t --mode=restart --version=3.6.16 --peer=a=https://a:2380,", "--peer: "},
		{"request close --name=r --outcome=maybe", "--outcome=maybe is not"},
		{"request close --name=../r --outcome=done", "--name: "},
		{"restore stage --node=a --request=r --backup=../b --token=t --version=3.6.16 --revision=1 --voter=a=https://a:2380",
			"--backup: "},
		{"restore stage --node=a --request=r --backup=b --token=t --version=3.6.16 --revision=99999999999999999999 " +
			"--voter=a=https://a:2380", "not a whole number"},
	}
	for _, tt := range tests {
		op, err := plan.Parse(strings.Fields(tt.line))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q gives %v, %v; want an error with %q", tt.line, op, err, tt.want)
		}
	}
}

func TestSetRefuses(t *testing.T) {
	if err := plan.Set(&plan.MoveLeader{}, "from", "a"); err == nil {
		t.Error("an unknown flag was set")
	}
	op := &plan.LeaseVotersWrite{}
	for _, name := range []string{"a", "b"} {
		if err := plan.Set(op, "name", name); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(op.Names, []cluster.NodeName{"a", "b"}) {
		t.Errorf("a repeated flag gave %v", op.Names)
	}
}

func TestTarget(t *testing.T) {
	for _, k := range plan.Kinds() {
		op := k.New()
		if err := plan.Set(op, "node", "a"); err != nil {
			if _, ok := plan.Target(op); ok {
				t.Errorf("%s has no node and a target", k.Path)
			}
			continue
		}
		node, ok := plan.Target(op)
		// A learner is added through the cluster, not by its node.
		if _, add := op.(*plan.AddLearner); ok == add || ok && node != "a" {
			t.Errorf("the target of %s is %q, %v", k.Path, node, ok)
		}
	}
}

// TestKindsAreComplete makes sure that each flag is documented, has a type that
// can be written, and that no two kinds share a path.
func TestKindsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range plan.Kinds() {
		if seen[k.Path] || k.Short == "" || k.Needs == "" || k.Done == "" || len(strings.Fields(k.Path)) != 2 {
			t.Errorf("kind %+v is not complete", k)
		}
		seen[k.Path] = true
		for _, f := range k.Flags() {
			if f.Name == "" || f.Doc == "" {
				t.Errorf("%s: flag %+v is not complete", k.Path, f)
			}
		}
	}
}

// words are values that hurt careless quoting and parsing.
var words = []string{
	"a", "3", "", " ", "it's", `"`, `\`, "\n", "a\nb", "$HOME", "`id`", "$(id)", "--x", "-x --y", "=", "a=b=c", ",", "*",
	"~", "#", "!", ";", "&&", "|", ">", "\t", "ä", "\x00", "\xff", "'\\''", "%s", "{a,b}",
}

// random fills an operation of a kind with values that are valid where the
// kind asks for valid ones, and awkward wherever it allows that.
func random(r *rand.Rand, k plan.Kind) plan.Operation {
	op := k.New()
	v := reflect.ValueOf(op).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() == reflect.Slice {
			n := 1 + r.IntN(3)
			f.Set(reflect.MakeSlice(f.Type(), n, n))
			for j := range n {
				randomValue(r, f.Index(j))
			}
			continue
		}
		randomValue(r, f)
	}
	if add, ok := op.(*plan.AddLearner); ok {
		add.PeerURLs = []string{"https://[::1]:2380", "http://a.example:80"}
	}
	return op
}

func randomValue(r *rand.Rand, v reflect.Value) {
	name := string([]byte{"abz-._09"[r.IntN(8)], "abz09"[r.IntN(5)]})
	awkward := words[r.IntN(len(words))] + words[r.IntN(len(words))]
	switch v.Interface().(type) {
	case cluster.NodeName, cluster.Token:
		v.SetString(name)
	case plan.StartMode:
		v.SetString(string([]plan.StartMode{plan.StartNew, plan.StartJoin, plan.StartRestart}[r.IntN(3)]))
	case plan.Moment:
		v.SetString(string(plan.MomentOf(time.Unix(r.Int64N(1<<33), r.Int64N(1<<29)))))
	case cluster.MemberID, cluster.Term:
		v.SetUint(1 + r.Uint64N(1<<63))
	case etcdversion.Version:
		v.Set(reflect.ValueOf(etcdversion.Version{Major: 3, Minor: r.IntN(9), Patch: r.IntN(99)}))
	case cluster.InitialMember:
		v.Set(reflect.ValueOf(cluster.InitialMember{
			Name: cluster.NodeName(name), PeerURLs: []string{"http://" + name + ":2380", "https://[::1]:2380"},
		}))
	case plan.Outcome:
		v.SetString(string([]plan.Outcome{plan.OutcomeDone, plan.OutcomeRefused}[r.IntN(2)]))
	case int, cluster.Revision:
		v.SetInt(1 + r.Int64N(1<<40))
	default:
		v.SetString("w" + without(awkward, func(r rune) bool { return strings.ContainsRune("/\\\x00", r) }))
	}
}

func without(s string, bad func(rune) bool) string {
	return strings.Map(func(r rune) rune {
		if bad(r) {
			return -1
		}
		return r
	}, s)
}

// FuzzArgv writes and reads random operations, and reads random words.
func FuzzArgv(f *testing.F) {
	for i := range 40 {
		f.Add(uint64(i), "member start --node=a --token=t --mode=new --version=3.6.16 --peer="+words[i%len(words)])
	}
	f.Add(uint64(1), "lease-voters write --name=\n --expect='x' --name=--x --y")
	f.Fuzz(func(t *testing.T, seed uint64, text string) {
		r := rand.New(rand.NewPCG(seed, 1))
		kinds := plan.Kinds()
		op := random(r, kinds[r.IntN(len(kinds))])
		argv := plan.Argv(op)
		back, err := plan.Parse(argv)
		if err != nil || !reflect.DeepEqual(op, back) {
			t.Fatalf("%q came back as %+v, %v; it was %+v", argv, back, err, op)
		}
		// Whatever is read at all is written and read as the same again.
		for _, argv := range [][]string{strings.Fields(text), strings.Split(text, " ")} {
			op, err := plan.Parse(argv)
			if err != nil {
				continue
			}
			if back, err := plan.Parse(plan.Argv(op)); err != nil || !reflect.DeepEqual(op, back) {
				t.Fatalf("%q was read as %+v, then as %+v, %v", argv, op, back, err)
			}
		}
	})
}

// TestLineIsReadBackByAShell gives many awkward lines to one real shell. They
// come back as the words of Argv, each ended by a zero byte.
func TestLineIsReadBackByAShell(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh")
	}
	r := rand.New(rand.NewPCG(7, 7))
	script := new(strings.Builder)
	script.WriteString("etcdadm() { printf '%s\\0' \"$@\"; }\n")
	var want []string
	for _, k := range plan.Kinds() {
		for range 60 {
			op := random(r, k)
			// No argument vector can hold a zero byte.
			if argv := plan.Argv(op); !strings.Contains(strings.Join(argv, ""), "\x00") {
				fmt.Fprintln(script, plan.Line(op))
				want = append(want, argv...)
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, sh)
	cmd.Stdin = strings.NewReader(script.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sh: %v", err)
	}
	var got []string
	for _, w := range bytes.Split(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		got = append(got, string(w))
	}
	if len(got) != len(want) {
		t.Fatalf("the shell read %d words, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("word %d is %q, want %q", i, got[i], want[i])
		}
	}
}
