package initfiles

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// PodOptions say what the static pod runs, and how.
type PodOptions struct {
	// Repository and Version make the image, see [Image].
	Repository string
	Version    etcdversion.Version
	// Env is etcd's environment as KEY=VALUE; the pod has it sorted.
	Env []string
	// CertsDir is mounted read-only, DataDir is writable. Both must exist, and are at
	// the same paths inside.
	CertsDir, DataDir string
	// Marker is a file in DataDir without which the kubelet does not start the pod,
	// empty for none: it is missing where the disk of DataDir is not mounted.
	Marker string
	// LogFile is a file of the machine that is mounted for etcd to log to. Empty
	// means that etcd logs to its output.
	LogFile string
	// ProbeURL is where the kubelet checks etcd's health: a listener that asks
	// for no client certificate (http, one of ETCD_LISTEN_METRICS_URLS) is asked
	// for /livez and /readyz. Of an https listener it is only seen whether it
	// accepts connections, as the kubelet has no certificate. Empty means no
	// probes.
	ProbeURL string
	// CPU and Memory are requested for the pod, 100m and 100Mi where empty.
	CPU, Memory string
	// UID and GID run etcd, nil for root. The directories must be theirs.
	UID, GID *int64
	// LowPort says that etcd listens on a port below 1024, which only root can.
	LowPort bool
	// HardeningOff leaves the security context out, except for UID and GID.
	HardeningOff bool
}

// Image returns the image of a version. Images in the repository of the
// Kubernetes project (registry.k8s.io/etcd, and k8s.gcr.io/etcd before) have
// the tag <version>-0; all others have v<version>, as etcd itself tags them.
// What has a tag or a digest already is taken as it is.
func Image(repository string, v etcdversion.Version) string {
	last := repository[strings.LastIndex(repository, "/")+1:]
	switch {
	case strings.ContainsAny(last, ":@"):
		return repository
	case repository != "registry.k8s.io/etcd" && repository != "k8s.gcr.io/etcd":
		return repository + ":v" + v.String()
	case v.Pre != "": // 3.5.24-0 is given as the tag
		return repository + ":" + v.String()
	}
	return repository + ":" + v.String() + "-0"
}

// Manifest returns the static pod, as YAML in which strings are plain scalars
// wherever they can be: pages and scripts read values out of it with grep.
//
// The startup probe asks whether etcd lives, not whether it is ready: a member
// that waits for a quorum, or a learner that still copies the data, is not
// ready for long, and to kill it makes that longer. Readiness only says so.
//
// There is no liveness probe. A restart makes no etcd faster, and programs that
// start machines poll that probe every ten seconds, for five minutes at most,
// before they let the member vote.
//
// The container's root file system can be written: people restore snapshots in
// it, with etcdctl, which writes where it stands.
func Manifest(o PodOptions) (string, error) {
	data, err := o.data()
	if err != nil {
		return "", fmt.Errorf("static pod: %w", err)
	}
	return data.yaml(), nil
}

type podVariable struct{ Name, Value string }

type podData struct {
	PodOptions
	Image      string
	Variables  []podVariable
	Advertised string
	Probe      *probe
	AddCaps    []string
}

func (o PodOptions) data() (podData, error) {
	o.CPU, o.Memory = cmp.Or(o.CPU, "100m"), cmp.Or(o.Memory, "100Mi")
	if err := o.validate(); err != nil {
		return podData{}, err
	}
	d := podData{PodOptions: o, Image: Image(o.Repository, o.Version)}
	for _, line := range slices.Sorted(slices.Values(o.Env)) {
		key, value, err := assignment(line)
		if err != nil {
			return podData{}, err
		}
		if key == "ETCD_ADVERTISE_CLIENT_URLS" {
			d.Advertised, _, _ = strings.Cut(value, ",")
		}
		// The kubelet replaces $(NAME) in values, and takes two $ for one.
		d.Variables = append(d.Variables, podVariable{key, strings.ReplaceAll(value, "$", "$$")})
	}
	if o.root() {
		d.AddCaps = append(d.AddCaps, "DAC_OVERRIDE")
	}
	if o.LowPort {
		d.AddCaps = append(d.AddCaps, "NET_BIND_SERVICE")
	}
	var err error
	d.Probe, err = newProbe(o.ProbeURL, o.Version)
	return d, err
}

var (
	repositoryForm = regexp.MustCompile(`^[A-Za-z0-9._:/@-]+$`)
	quantity       = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$`)
)

func (o PodOptions) root() bool { return o.UID == nil || *o.UID == 0 }

func (o PodOptions) validate() error {
	switch {
	case o.LowPort && !o.root():
		return errors.New("etcd cannot listen there on a port below 1024 unless it runs as root: pods have no ambient " +
			"capabilities")
	case !repositoryForm.MatchString(o.Repository):
		return fmt.Errorf("image repository %q is not valid", o.Repository)
	case o.Version.IsZero():
		return errors.New("the version of etcd is missing")
	case !quantity.MatchString(o.CPU) || !quantity.MatchString(o.Memory):
		return fmt.Errorf("requests %q (CPU) and %q (memory) are not quantities like 100m and 100Mi", o.CPU, o.Memory)
	}
	for what, p := range map[string]string{"directory of certificates": o.CertsDir, "data directory": o.DataDir} {
		if err := checkPath(what, p); err != nil {
			return err
		}
	}
	if o.LogFile != "" {
		return checkPath("log file", o.LogFile)
	}
	return nil
}

// A probe is how the kubelet asks one listener.
type probe struct {
	Host, Port  string
	Live, Ready string // paths; empty for a listener that is only connected to
}

// newProbe returns nil without a URL. /livez and /readyz exist from 3.4.29 and
// 3.5.11 on. Before, /health is set not to mind a full database, which no
// restart cures, nor, for liveness, a missing quorum.
func newProbe(listener string, v etcdversion.Version) (*probe, error) {
	if listener == "" {
		return nil, nil
	}
	u, err := url.Parse(listener)
	if err != nil || u.Port() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("probe URL %q is not of the form http://127.0.0.1:2381", listener)
	}
	p := &probe{Host: u.Hostname(), Port: u.Port()}
	if ip := net.ParseIP(p.Host); ip != nil && ip.IsUnspecified() {
		p.Host = map[bool]string{true: "127.0.0.1", false: "::1"}[ip.To4() != nil]
	}
	if u.Scheme == "https" {
		return p, nil
	}
	p.Live, p.Ready = "/health?exclude=NOSPACE&serializable=true", "/health?exclude=NOSPACE&serializable=false"
	if v.AtLeast(3, 6) || v.Minor == 5 && v.Patch >= 11 || v.Minor == 4 && v.Patch >= 29 {
		p.Live, p.Ready = "/livez", "/readyz"
	}
	return p, nil
}

// A plain scalar is read as a string by every version of YAML, with or without a
// schema: it begins with a letter or a slash and has no blank, or it is four
// numbers or more with dashes in between, as hosts are called by their addresses.
var (
	plainScalar  = regexp.MustCompile(`^[A-Za-z/]([][A-Za-z0-9_./=,@%+:-]*[]A-Za-z0-9_./=,@%+-])?$`)
	dashedNumber = regexp.MustCompile(`^[0-9]+(-[0-9]+){3,}$`)
	// What some version of YAML takes for something else.
	reserved = regexp.MustCompile(`(?i)^(y|yes|n|no|on|off|true|false|null|nan|inf)$`)
)

// scalar writes a string in YAML: plain if that is a string to all readers, and
// otherwise in double quotes. All that Go escapes, YAML reads the same way;
// checkText has kept out what is not UTF-8.
func scalar(s string) string {
	if plainScalar.MatchString(s) && !reserved.MatchString(s) || dashedNumber.MatchString(s) {
		return s
	}
	return strconv.QuoteToASCII(s)
}
