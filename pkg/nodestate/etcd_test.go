package nodestate

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/testport"
)

// etcdBinaries returns the etcd binaries to test with, by version.
func etcdBinaries(t *testing.T) map[string]string {
	t.Helper()
	dirs := os.Getenv("ETCDADM_ETCD_DIR")
	if dirs == "" {
		t.Skip("ETCDADM_ETCD_DIR is not set: no etcd to test with")
	}
	found := map[string]string{}
	for _, dir := range filepath.SplitList(dirs) {
		paths, _ := filepath.Glob(filepath.Join(dir, "etcd-v*", "etcd"))
		for _, p := range paths {
			found[strings.TrimPrefix(filepath.Base(filepath.Dir(p)), "etcd-v")] = p
		}
	}
	if len(found) == 0 {
		t.Fatalf("no etcd-v<version>/etcd in %s", dirs)
	}
	return found
}

// What etcd itself writes is seen as data of the member that etcd says it is.
func TestDiskOfRealEtcd(t *testing.T) {
	for version, binary := range etcdBinaries(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			want := runEtcd(t, binary, DataDir(dir, "tok-1"))
			for range 2 {
				got := Disk(dir, State{})
				if got != (cluster.Disk{State: cluster.DiskData, Token: "tok-1", MemberID: want}) {
					t.Errorf("got %+v, want member %s", got, want)
				}
			}
			// What the disk says counts more than what the node remembers.
			got := Disk(dir, State{MemberID: want + 1, MemberToken: "tok-1"})
			if got.MemberID != want {
				t.Errorf("got member %s, want %s", got.MemberID, want)
			}
			if err := os.Truncate(walOf(t, dir), 20); err != nil {
				t.Fatal(err)
			}
			if got := Disk(dir, State{}); got.State != cluster.DiskData || got.MemberID != 0 {
				t.Errorf("with a torn log: %+v", got)
			}
		})
	}
}

func walOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(DataDir(dir, "tok-1"), "member", "wal", "*.wal"))
	if err != nil || len(files) != 1 {
		t.Fatalf("logs %q, %v", files, err)
	}
	return files[0]
}

// runEtcd runs a new single member on path, asks it for its id and kills it.
func runEtcd(t *testing.T, binary, path string) cluster.MemberID {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client, peer := "http://"+testport.Address(t), "http://"+testport.Address(t)
	cmd := exec.CommandContext(ctx, binary, "--data-dir", path, "--log-level", "error",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // "signal: killed"
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if id, err := askMember(ctx, client); err == nil {
			return id
		}
		select {
		case <-ctx.Done():
			t.Fatal("etcd does not answer")
		case <-tick.C:
		}
	}
}

func askMember(ctx context.Context, client string) (cluster.MemberID, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, client+"/v3/maintenance/status", strings.NewReader("{}"))
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var answer struct {
		Header struct {
			MemberID string `json:"member_id"`
		} `json:"header"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return 0, err
	}
	id, err := strconv.ParseUint(answer.Header.MemberID, 10, 64)
	return cluster.MemberID(id), err
}

// An etcd 3.5 begins its log with requests of the v2 store, which 3.7 cannot
// read; later ones do not.
func TestOldEntriesOfRealEtcd(t *testing.T) {
	for version, binary := range etcdBinaries(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			runEtcd(t, binary, DataDir(dir, "tok-1"))
			data := DataDir(dir, "tok-1")
			old, err := OldEntries(data)
			if want := strings.HasPrefix(version, "3.5."); err != nil || old != want {
				t.Errorf("old entries: %v, want %v (%v)", old, want, err)
			}
			if begun, err := Begun(data); err != nil || !begun {
				t.Errorf("begun: %v, %v", begun, err)
			}
			// Behind a raft snapshot they do not count.
			if err := os.WriteFile(filepath.Join(data, "member", "snap", "0000000000000002-00000000000fffff.snap"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if old, err := OldEntries(data); err != nil || old {
				t.Errorf("behind a snapshot: %v, %v", old, err)
			}
		})
	}
	if begun, err := Begun(t.TempDir()); err != nil || begun {
		t.Errorf("without data it has begun: %v, %v", begun, err)
	}
	if old, err := OldEntries(t.TempDir()); err != nil || old {
		t.Errorf("without data: %v, %v", old, err)
	}
}
