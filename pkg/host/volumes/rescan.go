package volumes

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// The host is made to look for devices after 2 s without one, and then every 6 s.
const (
	rescanFirst = 10
	rescanEvery = 30
)

// rescan lets the host's kernel look for disks, and its udev make their links.
func (h Host) rescan(ctx context.Context, log *slog.Logger) {
	log.Info("the volume's device is not there yet; look for new disks")
	// The pattern is one that can be read.
	hosts, _ := filepath.Glob(h.path("/sys/class/scsi_host/*/scan"))
	for _, path := range hosts {
		if err := os.WriteFile(path, []byte("- - -"), 0); err != nil {
			log.Warn("the kernel does not look for new disks", "error", err)
		}
	}
	out, code, err := h.run(ctx, "udevadm", "trigger")
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, out)
	}
	if err != nil {
		log.Warn("udevadm trigger on the host", "error", err)
	}
}
