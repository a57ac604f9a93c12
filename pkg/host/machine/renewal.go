package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
)

// A Renewal is what there is that renews the certificates.
type Renewal struct {
	// Program is the path of this etcdadm, empty where it is not known.
	Program string
	// Enabled says that systemd starts the renewal each day.
	Enabled bool
}

// renewWithin is how long before the end of a certificate of a year it is renewed.
const renewWithin = 60 * 24 * time.Hour

// RenewFlags are the flags of "etcdadm certs renew all" for this machine, each day.
func RenewFlags(cfg Config) []string {
	life, flags := time.Duration(cfg.Certificates.Lifetime), []string(nil)
	flags = append(flags, "--within="+InDays(min(life/3, renewWithin)))
	defaults := Defaults()
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

// renewal has systemd renew the certificates each day. Where the authority's key is not on
// the machine nothing here can, and another timer of that name that is enabled stays.
func (w *world) renewal() (Operation, *Hold) {
	r := w.obs.Renewal
	if w.cfg.Service.InitSystem != Systemd || !w.obs.Host.InitSystem || w.obs.PKI.CA != CAReady || r.Program == "" {
		return nil, nil
	}
	service, timer := w.cfg.Paths.RenewPaths()
	_, own := w.obs.Files[timer]
	if r.Enabled && !own {
		return nil, nil
	}
	text, err := initfiles.RenewService(initfiles.RenewOptions{
		Program: r.Program, Args: RenewFlags(w.cfg), Flags: []string{"/etc/default/etcdadm", "/etc/sysconfig/etcdadm"},
	})
	if err != nil {
		return nil, invalid(err)
	}
	files := []initfiles.File{
		{Path: service, Mode: initfiles.UnitMode, Content: text},
		{Path: timer, Mode: initfiles.UnitMode, Content: initfiles.RenewTimer()},
	}
	if !r.Enabled {
		return &WriteFiles{files}, nil // writing the timer enables it
	}
	return w.write(files)
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
