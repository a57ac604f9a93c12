package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
)

// A Renewal is what there is that renews the certificates.
type Renewal struct {
	// Program is the path of etcdadm that root is to run again and again, empty where there is none
	// that nobody else can change.
	Program string
	// Problem says why no timer is made, empty where nothing is in the way.
	Problem string
	// Enabled says that systemd starts the renewal.
	Enabled bool
	// Theirs are the files in place of the units that a person has written, changed or masked.
	Theirs []string
}

// RenewalPhase is the phase of Init and Join that has certificates renewed. It comes last, and the
// member does not depend on it.
const RenewalPhase = "renewal"

// renewWindow is how long before the end of a certificate of a year it is renewed.
const renewWindow = 60 * 24 * time.Hour

// within is how long before its end a certificate is renewed.
func within(cfg Config) time.Duration {
	return min(time.Duration(cfg.Certificates.Lifetime)/3, renewWindow)
}

// RenewSchedule is how often this machine is to renew what ends soon.
func RenewSchedule(cfg Config) initfiles.RenewSchedule { return initfiles.RenewEach(within(cfg)) }

// RenewFlags are the flags of "etcdadm certs renew all" for this machine, by [RenewSchedule].
func RenewFlags(cfg Config) []string {
	flags, defaults := []string{"--within=" + InDays(within(cfg))}, Defaults()
	if cfg.Paths.Certificates != defaults.Paths.Certificates {
		flags = append(flags, "--certs-dir="+cfg.Paths.Certificates)
	}
	if cfg.Certificates.Lifetime != defaults.Certificates.Lifetime {
		flags = append(flags, "--cert-lifetime="+cfg.Certificates.Lifetime.String())
	}
	return flags
}

// InDays is a time as the flags of certificates have it, rounded down.
func InDays(d time.Duration) string {
	if d < 48*time.Hour {
		return d.Truncate(time.Second).String()
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// RenewPaths are the units that renew the certificates.
func (p Paths) RenewPaths() (service, timer string) {
	return p.inUnits(initfiles.RenewServiceName), p.inUnits(initfiles.RenewTimerName)
}

// renewal has systemd renew the certificates. Where the authority's key is not on the machine
// nothing here can. What a person has in place of one of the units stays, and so does another
// timer of that name that is enabled.
func (p *planner) renewal() (Operation, *Hold) {
	r := p.obs.Renewal
	if p.cfg.Service.InitSystem != Systemd || !p.obs.Host.InitSystem || p.obs.PKI.CA != CAReady || r.Program == "" ||
		r.Problem != "" || len(r.Theirs) > 0 {
		return nil, nil
	}
	service, timer := p.cfg.Paths.RenewPaths()
	_, own := p.obs.Files[timer]
	if r.Enabled && !own {
		return nil, nil
	}
	text, err := initfiles.RenewService(initfiles.RenewOptions{
		Program: r.Program, Args: RenewFlags(p.cfg), Flags: []string{"/etc/default/etcdadm", "/etc/sysconfig/etcdadm"},
	})
	if err != nil {
		return nil, invalid(err)
	}
	files := []initfiles.File{
		{Path: service, Mode: initfiles.UnitMode, Content: initfiles.Marked(text)},
		{Path: timer, Mode: initfiles.UnitMode, Content: initfiles.Marked(initfiles.RenewTimer(RenewSchedule(p.cfg)))},
	}
	if !r.Enabled {
		return &WriteFiles{files}, nil // writing the timer enables it
	}
	return p.write(files)
}

// predictRenewal has the timer be enabled when it is written, and gone with its file.
func predictRenewal(cfg Config, obs Observation, written []initfiles.File, removed []string) Observation {
	_, timer := cfg.Paths.RenewPaths()
	if slices.ContainsFunc(written, func(f initfiles.File) bool { return f.Path == timer }) {
		obs.Renewal.Enabled = true
	}
	if slices.Contains(removed, timer) {
		obs.Renewal.Enabled = false
	}
	return obs
}
