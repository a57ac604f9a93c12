package initfiles

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// The names of the units that renew the certificates of a machine without a daemon.
const (
	RenewServiceName = "etcdadm-certs-renew.service"
	RenewTimerName   = "etcdadm-certs-renew.timer"
)

// RenewOptions say what renews the certificates.
type RenewOptions struct {
	// Program is the path of etcdadm.
	Program string
	// Flags are files with further flags in ETCDADM_RENEW_FLAGS. These go last, where they override
	// Args. The files need not be there.
	Flags []string
	// Args are the flags of "etcdadm certs renew all".
	Args []string
}

const renewPage = "Documentation=https://github.com/etcdadm/etcdadm/blob/master/docs/etcdadm.md\n"

// RenewService returns the unit that renews once what ends soon.
func RenewService(o RenewOptions) (string, error) {
	if err := checkPath("program", o.Program); err != nil {
		return "", fmt.Errorf("unit %s: %w", RenewServiceName, err)
	}
	var b strings.Builder
	b.WriteString("[Unit]\nDescription=renew the certificates of the etcd of this machine that end soon\n" + renewPage + `
[Service]
Type=oneshot
# Of an etcd that etcdadm made: a daemon renews its own. Further flags:
# ETCDADM_RENEW_FLAGS="--cert-lifetime=720h --within=10d".
`)
	for _, file := range o.Flags {
		b.WriteString("EnvironmentFile=-" + percent(file) + "\n")
	}
	words := []string{o.Program, "certs", "renew", "all"}
	for _, arg := range o.Args {
		if strings.ContainsAny(arg, "\t\n\"'\\`$") {
			return "", fmt.Errorf("unit %s: the flag %q has a character that a unit cannot have", RenewServiceName, arg)
		}
		words = append(words, arg)
	}
	b.WriteString("ExecStart=" + pathWords(words) + " $ETCDADM_RENEW_FLAGS\n")
	return b.String(), nil
}

// A RenewSchedule is how often a machine checks whether certificates end soon.
type RenewSchedule struct {
	// Each says it in words, Calendar to systemd.
	Each, Calendar string
	period         time.Duration
}

var renewSchedules = []RenewSchedule{
	{"each day", "daily", 24 * time.Hour},
	{"each hour", "hourly", time.Hour},
	{"every ten minutes", "*:0/10", 10 * time.Minute},
	{"each minute", "minutely", time.Minute},
}

// RenewEach returns how often to check where what ends within a time is renewed. A certificate
// that was left alone is seen again before it ends: the delay included, two checks are less
// than that time apart.
func RenewEach(within time.Duration) RenewSchedule {
	for _, s := range renewSchedules {
		if 2*s.period <= within {
			return s
		}
	}
	return renewSchedules[len(renewSchedules)-1]
}

// Delay is the most by which systemd delays a check: machines of a cluster do not renew at the
// same moment.
func (s RenewSchedule) Delay() time.Duration { return s.period / 4 }

// RenewTimer returns the unit that starts the renewal.
func RenewTimer(s RenewSchedule) string {
	delay := fmt.Sprintf("%ds", s.Delay()/time.Second)
	if s.Delay()%time.Hour == 0 {
		delay = fmt.Sprintf("%dh", s.Delay()/time.Hour)
	}
	return strings.NewReplacer("@EACH@", s.Each, "@CALENDAR@", s.Calendar, "@DELAY@", delay).Replace(`[Unit]
Description=look @EACH@ whether certificates of the etcd of this machine end soon
` + renewPage + `
[Timer]
OnCalendar=@CALENDAR@
# Machines of a cluster do not do it at the same moment.
RandomizedDelaySec=@DELAY@
Persistent=yes

[Install]
WantedBy=timers.target
`)
}

// The first line of a unit that etcdadm may replace and delete has a digest of the rest between
// these: a copy that a person has changed is the person's.
const (
	renewMark = "# Written by etcdadm, which leaves the file alone once it is changed: "
	markEnd   = "\n"
)

// Marked returns a unit that etcdadm is to know again as its own.
func Marked(unit string) string {
	sum := sha256.Sum256([]byte(unit))
	return renewMark + hex.EncodeToString(sum[:8]) + markEnd + unit
}

// IsMarked reports whether a unit is as [Marked] returned it.
func IsMarked(unit string) bool {
	_, rest, _ := strings.Cut(unit, markEnd)
	return unit == Marked(rest)
}
