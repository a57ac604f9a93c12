package machines

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// renewTimer is the timer that packages bring, systemdDirs where a unit of a package may be.
const renewTimer = "etcdadm-certs-renew.timer"

var systemdDirs = []string{"/usr/lib/systemd/system", "/lib/systemd/system"}

// renewalWords says what a person has to do so that the certificates of this machine are renewed,
// "" where a timer does, or where there is no systemd that could have one.
func renewalWords(cfg machine.Config) string {
	if cfg.Service.InitSystem != machine.Systemd {
		return ""
	}
	there := func(path string) bool {
		_, err := os.Lstat(path)
		return !errors.Is(err, fs.ErrNotExist)
	}
	if there(filepath.Join(cfg.Paths.Units, "timers.target.wants", renewTimer)) {
		return ""
	}
	life := time.Duration(cfg.Certificates.Lifetime)
	text := fmt.Sprintf("The certificates end after %s, and no timer renews them yet. ", inDays(life))
	dirs := append([]string{cfg.Paths.Units}, systemdDirs...)
	if slices.ContainsFunc(dirs, func(dir string) bool { return there(filepath.Join(dir, renewTimer)) }) {
		return text + "To have a timer do it:\n\n\tsystemctl enable --now " + renewTimer + "\n"
	}
	flag := ""
	if cfg.Paths.Certificates != machine.Defaults().Paths.Certificates {
		flag = " --certs-dir=" + cfg.Paths.Certificates
	}
	return fmt.Sprintf("%sRun each day, by a timer or cron:\n\n\tetcdadm certs renew all --within=%s%s\n", text,
		inDays(min(life/3, renewWithin)), flag)
}

// renewWithin is how long before the end of a certificate of a year the timer renews it.
const renewWithin = 60 * 24 * time.Hour

// inDays is a time as the flags of certificates have it.
func inDays(d time.Duration) string {
	if hours := int(d / time.Hour); hours < 48 {
		return fmt.Sprintf("%dh", hours)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
