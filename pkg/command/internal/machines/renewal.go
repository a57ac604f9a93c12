package machines

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/shell"
)

// renewalWords says what a person has to do so that the certificates of this machine are renewed,
// "" where a timer does, or a person has one or wants none.
func renewalWords(cfg machine.Config, r machine.Renewal) string {
	there := func(path string) bool {
		_, err := os.Lstat(path)
		return !errors.Is(err, fs.ErrNotExist)
	}
	text := fmt.Sprintf("The certificates end after %s, and no timer renews them yet. ",
		machine.InDays(time.Duration(cfg.Certificates.Lifetime)))
	_, timer := cfg.Paths.RenewPaths()
	wanted := filepath.Join(cfg.Paths.Units, "timers.target.wants", initfiles.RenewTimerName)
	systemd := cfg.Service.InitSystem == machine.Systemd
	switch {
	case !there(cfg.Paths.Certificate("ca.key")):
		return text + "Their authority's key is not here: bring new ones before that time.\n"
	case systemd && (r.Enabled || slices.Contains(r.Theirs, timer) || r.Problem != "" && there(wanted)):
		return ""
	case systemd && r.Problem != "":
		text += "etcdadm has made none: " + r.Problem + ".\n"
	}
	return text + "Run " + machine.RenewSchedule(cfg).Each + ", by a timer or cron:\n\n\tetcdadm certs renew all " +
		shell.Line(machine.RenewFlags(cfg)) + "\n"
}
