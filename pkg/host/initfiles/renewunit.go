package initfiles

import (
	"fmt"
	"strings"
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
	// Flags are files with further flags in ETCDADM_RENEW_FLAGS, which go first; they need
	// not be there.
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

// RenewTimer returns the unit that starts it each day.
func RenewTimer() string {
	return `[Unit]
Description=look each day whether certificates of the etcd of this machine end soon
` + renewPage + `
[Timer]
OnCalendar=daily
# Machines of a cluster do not do it at the same moment.
RandomizedDelaySec=6h
Persistent=yes

[Install]
WantedBy=timers.target
`
}
