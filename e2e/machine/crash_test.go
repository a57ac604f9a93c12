//go:build e2e

package machine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

func (s scene) action() machine.Action { return machine.Action(s.args[0]) }

// A scenario makes scenes of one kind.
type scenario struct {
	name string
	open func(t *testing.T) scene
}

var scenarios = []scenario{
	{"init", openInit}, {"init with a snapshot", openSnapshot}, {"join", openJoin}, {"reset", openReset}, {
		"remove", openRemove,
	},
}

// openSnapshot has an init that begins with what another cluster had.
func openSnapshot(t *testing.T) scene {
	a := newHost(t, "a", v36)
	a.program = crashing(t)
	file := a.path("etcd.db")
	if err := os.WriteFile(file, snapshot(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return scene{h: a, args: []string{"init", "--snapshot", file}, check: func() {
		a.wantWhole("a")
		wantKeys(map[string]string{"from": "the snapshot"}, a)
	}}
}

// openJoin has a cluster of one, to which another joins.
func openJoin(t *testing.T) scene {
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 2)
	a, b := hosts[0], hosts[1]
	a.ok("init")
	a.put("before", "the crash")
	b.copyCA(a)
	b.program = crashing(t)
	return scene{h: b, args: []string{"join", a.clientURL()}, check: func() {
		b.wantWhole("a", "b")
		a.put("after", "the crash") // which takes both of them
		wantKeys(map[string]string{"before": "the crash", "after": "the crash"}, a, b)
	}}
}

// openReset has the one of two leave that leads, and then begin a cluster of
// its own.
func openReset(t *testing.T) scene {
	a, b := newPair(t, v36)
	for _, h := range []*host{a, b} {
		h.vars = map[string]string{
			"ETCDADM_VERSION": v36, "ETCDADM_BINARIES_DIR": h.binaries, "ETCDADM_INIT_SYSTEM": "process",
		}
	}
	found(a, b)
	b.put("from", "b")
	b.lead()
	b.program = crashing(t)
	boot := func() {
		b.boot()
		eventually(t, commandTime, "the cluster to serve", func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := a.client(a).Get(ctx, "from")
			return err
		})
	}
	return scene{h: b, args: []string{"reset"}, boot: boot, check: func() {
		if left := b.programs(); len(left) > 0 {
			t.Errorf("after its reset b runs %q", left)
		}
		b.wantNames("data.set-aside", "etc", "bin", "cache")
		if n := len(glob(t, b.at("data.set-aside")+"/*")); n != 1 {
			t.Errorf("data was moved aside %d times", n)
		}
		a.wantVoters("a")
		wantKeys(map[string]string{"from": "b"}, a)
		b.ok("init")
		b.wantWhole("b")
		wantKeys(map[string]string{"from": ""}, b)
	}}
}

// openDiscard has the only member of a cluster delete its data.
func openDiscard(t *testing.T) scene {
	a := newHost(t, "a", v36)
	a.ok("init")
	a.put("from", "a")
	a.program = crashing(t)
	return scene{h: a, args: []string{"reset", "--discard-data", "--force"}, check: func() {
		a.wantNames("etc", "bin", "cache")
		a.ok("init")
		a.wantWhole("a")
		wantKeys(map[string]string{"from": ""}, a)
	}}
}

// openRemove has one of three die, and another remove it.
func openRemove(t *testing.T) scene {
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	found(hosts...)
	a, c := hosts[0], hosts[2]
	a.put("before", "the crash")
	a.program = crashing(t)
	id := fmt.Sprintf("%x", c.id())
	c.kill()
	boot := func() { a.ok("init") }
	return scene{h: a, args: []string{"remove", id}, boot: boot, check: func() {
		a.wantWhole("a", "b")
		wantKeys(map[string]string{"before": "the crash"}, a, hosts[1])
	}}
}

// steps returns the phases of the steps that the command does when nothing
// goes wrong.
func (s scene) steps() []string {
	s.h.t.Helper()
	var phases []string
	for _, step := range s.h.report(s.args...).Steps {
		phases = append(phases, step.Phase)
	}
	return phases
}

// Each command is killed after its first step, and run again to its end; then,
// on another machine, after its second one, and so on.
func TestKilledAfterEachStep(t *testing.T) {
	t.Parallel()
	for _, st := range scenarios {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			whole := st.open(t)
			nth := map[string]int{}
			for _, phase := range whole.steps() {
				nth[phase]++
				point := fmt.Sprintf("%s.%s.after:%d", whole.action(), phase, nth[phase])
				t.Run(point, func(t *testing.T) {
					t.Parallel()
					s := st.open(t)
					// There is one step less where etcd serves before anybody waits for it.
					if !s.crash(point) && phase != "health" {
						t.Fatalf("%q does not come to %s", s.args, point)
					}
					s.end()
				})
			}
			whole.check()
		})
	}
}

// A fate is what befalls a machine besides the command that is killed.
type fate struct {
	name string
	what func(*host)
}

var fates = []fate{
	{"the command alone", func(*host) {}},
	{"power cut", (*host).kill},
	{"etcd too", func(h *host) { _, etcd := h.onStatusFile(); end(etcd) }},
	{"the supervisor too", func(h *host) { supervisor, _ := h.onStatusFile(); end(supervisor) }},
}

// On one machine, each command is killed before and after each of its steps,
// run again each time, with what else may be killed then.
func TestKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	for _, st := range scenarios {
		for _, f := range fates {
			if (st.name == "remove" || st.name == "init with a snapshot") && f.name != "power cut" {
				continue // it is as with the others
			}
			t.Run(st.name+", "+f.name, func(t *testing.T) {
				t.Parallel()
				model, s := st.open(t), st.open(t)
				for _, phase := range model.steps() {
					for _, place := range []string{".before", ".after"} {
						point := string(s.action()) + "." + phase + place
						s.crash(point)
						if f.what(s.h); s.boot != nil {
							s.boot()
						}
					}
				}
				s.end()
			})
		}
	}
}

// An etcd that is killed between making its log and writing its bootstrap there
// never elects a leader when it is started again on that log.
func TestInitOverABootstrapThatWasCutOff(t *testing.T) {
	t.Parallel()
	for name, boot := range map[string]func(*host){"it rests": func(*host) {}, "it was started again": (*host).boot} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			donor, s := newHost(t, "a", v36), openInit(t)
			donor.ok("init")
			donor.kill()
			cutOff(t, donor.path("data"))
			if !s.crash("init.start.after:2") { // the first makes the data directory
				t.Fatal("init ends without a start")
			}
			eventually(t, commandTime, "etcd to run", func() error {
				if s.h.etcd() == 0 {
					return errors.New("no process")
				}
				return nil
			})
			s.h.kill()
			s.h.wipe(s.h.path("data", "member"))
			if err := os.CopyFS(s.h.path("data", "member"), os.DirFS(donor.path("data", "member"))); err != nil {
				t.Fatal(err)
			}
			boot(s.h)
			s.end()
			s.h.put("after", "it")
		})
	}
}

// cutOff takes from an etcd's log what comes after its head: the checksum,
// whose log it is, and the empty snapshot.
func cutOff(t *testing.T, data string) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(data, "member", "wal", "0000000000000000-0000000000000000.wal"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	at := int64(0)
	for range 3 {
		head := make([]byte, 8)
		if _, err := log.ReadAt(head, at); err != nil {
			t.Fatal(err)
		}
		size := binary.LittleEndian.Uint64(head)
		at += 8 + int64(size&(1<<56-1)+size>>56&7)
	}
	if _, err := log.WriteAt(make([]byte, 64<<10), at); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(data, "member", "snap", "db")); err != nil {
		t.Fatal(err)
	}
}

// places says which scenario comes to the crash points within steps. For some, it
// is another command line.
var places = []struct {
	points *regexp.Regexp
	open   func(t *testing.T) scene
}{
	{regexp.MustCompile(`^write-files\.`), openJoin},
	{regexp.MustCompile(`^(remove-files|set-aside)\.`), openReset},
	{regexp.MustCompile(`^discard\.`), openDiscard},
	{regexp.MustCompile(`^install\.`), openInit},
	{regexp.MustCompile(`^download\.`), openDownload},
}

// pointsWithin returns the crash points in the source that are not those of a
// step as a whole.
func pointsWithin(t *testing.T) []string {
	t.Helper()
	names := map[string]bool{}
	call := regexp.MustCompile(`crashpoint\.Hit\((.*?)\)\n`)
	err := filepath.WalkDir("../../pkg", func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && slices.Contains(others, e.Name()) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range call.FindAllStringSubmatch(string(b), -1) {
			switch arg := m[1]; {
			case arg == `name + ".before"`, arg == `name + ".after"`: // the steps
			case arg == `"install.after-" + name`:
				for _, name := range []string{"etcdutl", "etcdctl", "etcd"} {
					names["install.after-"+name] = true
				}
			case strings.Count(arg, `"`) == 2 && strings.HasPrefix(arg, `"`) && strings.HasSuffix(arg, `"`):
				names[strings.Trim(arg, `"`)] = true
			default:
				t.Errorf("%s has a crash point %s, which this test does not understand", path, arg)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(names))
}

// Steps that are not a single change are killed inside, up to three times.
func TestKilledWithinAStep(t *testing.T) {
	t.Parallel()
	points := pointsWithin(t)
	if len(points) < 5 {
		t.Fatalf("the source has hardly a crash point: %q", points)
	}
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			for _, p := range places {
				if !p.points.MatchString(point) {
					continue
				}
				s := p.open(t)
				if !s.crash(point) {
					t.Fatalf("%q does not come to %s", s.args, point)
				}
				for again := 0; again < 2 && s.crash(point); again++ { // where it comes to it once more
				}
				s.end()
				return
			}
			t.Errorf("no scenario of this test comes to the crash point %s", point)
		})
	}
}

// The machine loses its power while etcd starts for the first time: when a file
// appears. Whatever etcd has on the disk by then, the command goes on.
func TestPowerCutInTheFirstStart(t *testing.T) {
	t.Parallel()
	for _, st := range []scenario{{"init", openInit}, {"join", openJoin}} {
		for _, file := range []string{"member", "member/snap/db", "member/wal"} {
			t.Run(st.name+" "+file, func(t *testing.T) {
				t.Parallel()
				for range 10 {
					if s := st.open(t); s.cutAt(file) {
						s.end()
						return
					}
				}
				t.Fatal("each time it came to its end before")
			})
		}
	}
}

// cutAt runs the scene's command until a file is in the data directory, cuts the power, and
// reports whether that was before the command's end.
func (s scene) cutAt(file string) bool {
	s.h.t.Helper()
	cmd := s.h.command(s.h.t.Context(), s.h.program, s.args...)
	if err := cmd.Start(); err != nil {
		s.h.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for !exists(s.h.path("data", file)) && len(ended) == 0 {
		runtime.Gosched() // the moment is short
	}
	_ = cmd.Process.Kill()
	s.h.cutPower()
	return <-ended != nil
}

// The command is killed at any moment, with all that it started, until once it
// comes to its end before that.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	for _, st := range []scenario{{"init", openInit}, {"join", openJoin}} {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			s := st.open(t)
			for life := 20 * time.Millisecond; ; life += life/16 + rand.N(20*time.Millisecond) {
				ctx, cancel := context.WithTimeout(t.Context(), life)
				cmd := s.h.command(ctx, s.h.program, s.args...)
				var said bytes.Buffer
				cmd.Stdout, cmd.Stderr = &said, &said
				err := cmd.Run()
				killed := ctx.Err() != nil
				cancel()
				if err == nil {
					break
				}
				if !killed || life > commandTime || life > 10*time.Second && life > 5*st.undisturbed(t) {
					t.Fatalf("after a life of %s it does not go on: %v\n%s", life, err, &said)
				}
				s.h.cutPower()
			}
			s.end()
		})
	}
}

// undisturbed returns how long the scenario's command takes here when nothing happens to it.
func (st scenario) undisturbed(t *testing.T) time.Duration {
	t.Helper()
	s := st.open(t)
	began := time.Now()
	s.h.ok(s.args...)
	took := time.Since(began)
	s.end()
	return took
}

// All machines lose their power. The same commands as ever bring the cluster
// back, also where nothing else starts etcd.
func TestPowerCutOfAll(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	found(hosts...)
	a := hosts[0]
	a.put("before", "the power cut")
	for _, h := range hosts {
		h.cutPower()
	}
	var all sync.WaitGroup
	results := make([]result, len(hosts))
	for i, h := range hosts {
		args := []string{"init"}
		if h != a {
			args = []string{"join", "--membership-timeout=60s", a.clientURL()}
		}
		all.Go(func() { results[i] = h.run(args...) })
	}
	all.Wait()
	for i, r := range results {
		if r.code != 0 {
			t.Errorf("%s: %s", hosts[i].name, r)
		}
	}
	for _, h := range hosts {
		h.wantWhole("a", "b", "c")
		wantKeys(map[string]string{"before": "the power cut"}, h)
	}
}
