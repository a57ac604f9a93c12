package stores

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/stores/servers"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/store/storetest"
)

// uploadTo makes the test binary a process that uploads; uploadSize says how much.
const (
	uploadTo   = "STORES_TEST_UPLOAD_TO"
	uploadSize = "STORES_TEST_UPLOAD_SIZE"
)

func TestMain(m *testing.M) {
	if to := os.Getenv(uploadTo); to != "" {
		if err := upload(to); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// upload stores as much as uploadSize says, and prints the largest memory of
// this process before and after.
func upload(to string) error {
	size, err := strconv.ParseInt(os.Getenv(uploadSize), 10, 64)
	if err != nil {
		return err
	}
	ctx := context.Background() //nolint:forbidigo // this is a main
	s, err := store.Open(ctx, to)
	if err != nil {
		return err
	}
	// What a program needs in any case.
	if err := s.Put(ctx, "small", nil); err != nil {
		return err
	}
	before, err := peak()
	if err != nil {
		return err
	}
	began := time.Now()
	if made, err := s.Upload(ctx, "large", storetest.Content(size)); err != nil || !made {
		return fmt.Errorf("%t, %w", made, err)
	}
	after, err := peak()
	fmt.Println(before, after, time.Since(began).Milliseconds())
	return err
}

// peak returns the largest resident memory that this process had, in MiB.
func peak() (int, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	field := bytes.Fields(rest)
	if len(field) == 0 {
		return 0, errors.New("the kernel does not say VmHWM")
	}
	kib, err := strconv.Atoi(string(field[0]))
	return kib >> 10, err
}

// The memory of an upload does not depend on its size. STORES_TEST_UPLOAD_SIZE
// makes it larger than that of the usual test.
func TestMemoryOfAnUpload(t *testing.T) {
	size := int64(256 << 20)
	if text := os.Getenv(uploadSize); text != "" {
		var err error
		if size, err = strconv.ParseInt(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	all := size
	for name, location := range map[string]string{
		"file": "file://" + t.TempDir(),
		"s3":   servers.StartS3(t).Location("x"),
		"gcs":  servers.StartGCS(t).Location("x"),
	} {
		if size = all; name == "gcs" {
			// The server keeps it in memory, and copies it for each chunk.
			size = all / 4
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), uploadTo+"="+location, uploadSize+"="+strconv.FormatInt(size, 10))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		var before, after, took int
		if _, err := fmt.Sscan(string(out), &before, &after, &took); err != nil {
			t.Fatalf("%s: %s", name, out)
		}
		t.Logf("%s: %d MiB in %d ms, memory at most %d MiB, %d MiB more than before", name, size>>20, took, after,
			after-before)
		if !raceEnabled && after-before > 48 {
			t.Errorf("%s: an upload of %d MiB takes %d MiB of memory", name, size>>20, after-before)
		}
	}
}

// A listing of 10,000 backups is one request per thousand objects.
func TestRequestsOfAListing(t *testing.T) {
	server := servers.StartS3(t)
	const count = 10000
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	// As files below the server, which is quicker.
	for i := range count {
		dir := filepath.Join(server.Dir, server.Bucket, "x", retention.Name(at.Add(time.Duration(i)*time.Minute), 1))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{
			retention.DataFile, retention.DescriptionFile, retention.MarkerFile, retention.VerifiedFile,
		} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(strings.Repeat("x", 10)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := open(t, server.Location("x"))
	began := time.Now()
	all, err := s.Backups(t.Context())
	if err != nil || len(all) != count || all[0].Verified.IsZero() {
		t.Fatalf("%d backups, %v", len(all), err)
	}
	t.Logf("%d backups in %d requests, %s", count, s.Requests(), time.Since(began))
	if s.Requests() != 40 {
		t.Errorf("the listing makes %d requests", s.Requests())
	}
}
