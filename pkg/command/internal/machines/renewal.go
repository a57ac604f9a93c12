package machines

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// renewalWords says what a person has to do so that the certificates of this machine are renewed,
// "" where a timer does.
func renewalWords(cfg machine.Config) string {
	there := func(path string) bool {
		_, err := os.Lstat(path)
		return !errors.Is(err, fs.ErrNotExist)
	}
	text := fmt.Sprintf("The certificates end after %s, and no timer renews them yet. ",
		machine.InDays(time.Duration(cfg.Certificates.Lifetime)))
	_, timer := cfg.Paths.RenewPaths()
	wanted := filepath.Join(cfg.Paths.Units, "timers.target.wants", initfiles.RenewTimerName)
	switch {
	case !there(cfg.Paths.Certificate("ca.key")):
		return text + "Their authority's key is not here: bring new ones before that time.\n"
	case cfg.Service.InitSystem == machine.Systemd && (there(timer) || there(wanted)):
		return ""
	}
	return text + "Run each day, by a timer or cron:\n\n\tetcdadm certs renew all " +
		strings.Join(machine.RenewFlags(cfg), " ") + "\n"
}
