package volumes

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// A host that does not see a new disk by itself is made to look for it.
func TestTheHostIsReportedToLook(t *testing.T) {
	h := Host{Root: t.TempDir()}
	scan := filepath.Join(h.Root, "sys/class/scsi_host/host0/scan")
	for _, dir := range []string{filepath.Dir(scan), filepath.Join(h.Root, "dev/disk/by-id")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(scan, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	v := Volume{ID: "1", Devices: []string{"/dev/disk/by-id/virtio-1"}, Rescan: true}
	got := make(chan string, 1)
	go func() {
		device, err := h.await(t.Context(), v, logger, func(string) {})
		if err != nil {
			device = err.Error()
		}
		got <- device
	}()
	testwait.Until(t, "the disks to be looked for", func() bool {
		text, err := os.ReadFile(scan)
		return err == nil && string(text) == "- - -"
	})
	if err := os.Symlink("/dev/null", filepath.Join(h.Root, "dev/disk/by-id/virtio-1")); err != nil {
		t.Fatal(err)
	}
	if device := <-got; device != "/dev/null" {
		t.Errorf("the device is %s", device)
	}
	// This host has no process whose mounts could be joined.
	if !strings.Contains(log.String(), "udevadm trigger on the host") {
		t.Errorf("reported\n%s", log.String())
	}
}
