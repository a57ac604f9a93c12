package etcdbackup

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func (w *world) open() *store.Store {
	w.t.Helper()
	s, err := store.Open(w.t.Context(), w.store)
	must(w.t, err)
	return s
}

// backups returns the backups, oldest first.
func (w *world) backups() []cluster.Backup {
	w.t.Helper()
	list, err := w.open().Backups(w.t.Context())
	must(w.t, err)
	slices.Reverse(list)
	return list
}

// writing reports whether a data file is being written: the store writes it
// beside its place.
func (w *world) writing() bool {
	found := false
	_ = filepath.WalkDir(w.store, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasPrefix(d.Name(), ".") && !strings.Contains(path, "control") {
			if info, err := d.Info(); err == nil && info.Size() > 1<<20 {
				found = true
			}
		}
		return nil
	})
	return found
}

// TestThreeAgentsOfARealCluster runs an agent beside each of three members, on
// one store, kills one in the middle of a backup, starts it again, and in the
// end checks every backup.
func TestThreeAgentsOfARealCluster(t *testing.T) {
	w := newWorld(t, 3)
	w.fill(12)                       // more takes a busy machine longer than the health of such an interval allows
	const interval = 4 * time.Second // a claim runs for half of it, and healthy is who has had three
	metrics := testport.Address(t)
	var agents []*agent
	begin := func(i int) *agent {
		more := []string{"--interval=" + interval.String(), "--verify"}
		if i == 0 {
			more = append(more, "--listen-metrics="+metrics)
		}
		return start(t, w.args(i, more...)...)
	}
	for i := range 3 {
		agents = append(agents, begin(i))
	}
	testwait.Until(t, "four backups", func() bool { return len(w.backups()) >= 4 })
	wantOneEach(t, w.backups(), interval)
	wantMetrics(t, metrics)

	// Whoever is at it dies; another takes over when the claim has run out.
	before := len(w.backups())
	victim := w.killInTheMiddle(agents)
	testwait.Until(t, "a backup by another agent", func() bool { return len(w.backups()) > before })
	agents[victim] = begin(victim)
	after := len(w.backups())
	testwait.Until(t, "three backups more", func() bool { return len(w.backups()) >= after+3 })
	wantOneEach(t, w.backups(), interval)

	for i, a := range agents {
		if code := a.stop(syscall.SIGTERM); code != 0 {
			t.Errorf("agent %d ends with %d", i, code)
		}
	}
	w.check()
}

// killInTheMiddle kills the agent that is taking a backup, and returns its
// number.
func (w *world) killInTheMiddle(agents []*agent) int {
	w.t.Helper()
	victim := -1
	testwait.Until(w.t, "a backup that is caught in the middle", func() bool {
		if !w.writing() {
			return false
		}
		// All stand still while the test finds out who it is: on a busy machine it would come too late.
		for _, a := range agents {
			must(w.t, a.cmd.Process.Signal(syscall.SIGSTOP))
		}
		defer func() {
			for _, a := range agents {
				_ = a.cmd.Process.Signal(syscall.SIGCONT) // one of them has ended
			}
		}()
		by := -1
		chains, err := filepath.Glob(filepath.Join(w.store, "control/backup-claims/*/1"))
		must(w.t, err)
		for _, chain := range chains {
			text, err := os.ReadFile(chain)
			if err != nil {
				continue
			}
			for i, a := range agents {
				if strings.Contains(string(text), fmt.Sprintf("-%d-", a.cmd.Process.Pid)) {
					by = i
				}
			}
		}
		if by >= 0 && w.writing() {
			if code := agents[by].stop(syscall.SIGKILL); code != -1 {
				w.t.Fatalf("agent %d ended by itself with %d", by, code)
			}
			victim = by
		}
		return victim >= 0
	})
	return victim
}

// wantOneEach checks the times of backups: never two in an interval. The times
// in names are whole seconds.
func wantOneEach(t *testing.T, list []cluster.Backup, interval time.Duration) {
	t.Helper()
	for i := 1; i < len(list); i++ {
		if gap := list[i].At.Sub(list[i-1].At); gap < interval {
			t.Errorf("%s comes %s after %s", list[i].Name, gap, list[i-1].Name)
		}
	}
}

func wantMetrics(t *testing.T, address string) {
	t.Helper()
	page := func(path string) (int, string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
		must(t, err)
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		must(t, err)
		return answer.StatusCode, string(b)
	}
	// On a busy machine three backups may be late.
	testwait.Until(t, "health", func() bool {
		code, text := page("/healthz")
		return code == http.StatusOK && text == "ok\n"
	})
	var text string
	value := func(name string) float64 {
		for line := range strings.Lines(text) {
			if v, ok := strings.CutPrefix(line, name+" "); ok {
				f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
				must(t, err)
				return f
			}
		}
		t.Errorf("there is no %s in\n%s", name, text)
		return 0
	}
	testwait.Until(t, "an age below 30 s", func() bool {
		_, text = page("/metrics")
		age := value("etcd_backup_age_seconds")
		return age >= 0 && age <= 30
	})
	for _, name := range []string{
		"etcd_backup_last_timestamp_seconds", "etcd_backup_last_size_bytes", "etcd_backup_stored_backups",
		"etcd_backup_stored_bytes", "etcd_backup_store_requests_total",
	} {
		if value(name) < 1 {
			t.Errorf("%s is %g", name, value(name))
		}
	}
	for _, name := range []string{
		`etcd_backup_failures_total{what="take"}`, `etcd_backup_failures_total{what="verify"}`, "etcd_backup_taken_total",
		"etcd_backup_last_duration_seconds", "etcd_backup_last_revision",
	} {
		value(name)
	}
}

// check verifies every backup, and restores the last with etcd's own tool.
func (w *world) check() {
	t, s := w.t, w.open()
	t.Helper()
	list := w.backups()
	for _, b := range list {
		d, err := backup.Verify(t.Context(), s, b.Name, backup.FetchOptions{})
		if err != nil || d.Revision == 0 || d.Cluster != "test" || d.MemberName == "" || d.EtcdVersion != v36 ||
			d.MemberCount != 3 {
			t.Errorf("%+v, %v", d, err)
		}
		if b.Damaged {
			t.Errorf("%s is damaged", b.Name)
		}
	}
	left, err := s.Leftovers(t.Context(), time.Now().Add(time.Hour))
	if err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	path := filepath.Join(w.dir, "snapshot.db")
	f, err := os.Create(path)
	must(t, err)
	_, err = backup.Fetch(t.Context(), s, list[len(list)-1].Name, f, backup.FetchOptions{})
	must(t, err)
	must(t, f.Close())
	out, err := exec.CommandContext(t.Context(), etcdtest.Binaries(t, etcdtest.V36).Etcdutl, "snapshot", "restore", path,
		"--data-dir", filepath.Join(w.dir, "restored")).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestOnceOnARealMember(t *testing.T) {
	w := newWorld(t, 1)
	w.fill(1)
	run := func(more ...string) (int, string, string) { return run(t, w.args(0, more...)...) }
	if code, stdout, stderr := run("--once"); code != 0 || !strings.Contains(stdout, "BACKUP") || len(w.backups()) != 1 {
		t.Fatalf("exit code %d, %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := run("--once", "--interval=1h"); code != 0 ||
		!strings.Contains(stdout, "no backup: the next backup is due at") || len(w.backups()) != 1 {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := run("--once", "--skip-unchanged", "-o=json"); code != 0 ||
		!strings.Contains(stdout, `"skipped": "the newest backup`) {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	w.fill(1)
	if code, stdout, stderr := run("--once", "--skip-unchanged", "--compression=zstd", "--encrypt-to="+recipient,
		"--verify", "--leader-only"); code != 0 || len(w.backups()) != 2 {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	// What is inside of an encrypted one was not seen, and is not said to be good.
	if b := w.backups()[1]; !b.Encrypted || !b.Verified.IsZero() {
		t.Errorf("%+v", b)
	}
	if code, stdout, stderr := run("--once", "--max-count=1"); code != 0 || len(w.backups()) != 1 {
		t.Errorf("exit code %d, %s%s, %d backups", code, stdout, stderr, len(w.backups()))
	}
}

func TestCertificatesThatAreRenewedAreUsed(t *testing.T) {
	w := newWorld(t, 1)
	w.fill(1)
	good, err := os.ReadFile(w.file("pair.crt"))
	must(t, err)
	other := t.TempDir()
	authority(t, other)
	wrong, err := os.ReadFile(filepath.Join(other, "pair.crt"))
	must(t, err)
	// The server has its own copy.
	cert := w.file("client.crt")
	write(t, cert, string(wrong))
	a := start(t, slices.Concat(w.args(0, "--interval=3s"), []string{"--client-cert-file=" + cert})...)
	testwait.Until(t, "the wrong certificate to be reported", func() bool {
		return strings.Contains(a.said(), cert)
	})
	write(t, cert, string(good))
	testwait.Until(t, "a backup", func() bool { return len(w.backups()) > 0 })
	if code := a.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("it ends with %d", code)
	}
}
