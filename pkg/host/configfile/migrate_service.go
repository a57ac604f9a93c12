package configfile

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// own are settings of the unit that follow from the configuration, or that
// have another value in the units of the retired etcdadm.
var own = []string{
	"Type", "EnvironmentFile", "ExecStart", "User", "Group", "TimeoutStartSec",
	"ReadWritePaths", "ProtectHome", "PrivateTmp", "CapabilityBoundingSet", "AmbientCapabilities",
}

// unit takes over what systemd is given.
func (m *migration) unit(from Source) {
	s := &m.c.Service
	s.InitSystem = machine.Systemd
	m.c.Paths.Units = path.Dir(from.Path)
	lines := settings(from.Text, "Service")
	// What every unit of etcdadm has.
	reference, err := initfiles.Unit(initfiles.UnitOptions{Etcd: "/etcd", EnvFile: "/env", DataDir: "/data"})
	usual := settings(reference, "Service")
	if err != nil {
		usual = nil // it is a constant, which a test reads
	}
	hardened := false
	for _, line := range lines {
		key, value, _ := strings.Cut(line, "=")
		hardened = hardened || key == "NoNewPrivileges"
		switch {
		case key == "ExecStart":
			m.execStart(value)
		case key == "User":
			s.User = value
		case key == "Group":
			s.Group = value
		case slices.Contains(own, key), slices.Contains(usual, line), strings.HasPrefix(value, initfiles.UnitVariable+"="):
		case initfiles.CheckPriority(line) != nil:
			m.note("%s is left out of service.priorities; a drop-in can have it: systemctl edit etcd", line)
		default:
			s.Priorities = append(s.Priorities, line)
		}
	}
	switch {
	case slices.Equal(s.Priorities, machine.Defaults().Service.Priorities):
		s.Priorities = nil
	case s.Priorities == nil:
		s.Priorities = []string{}
	}
	if !hardened && strings.Contains(from.Text, "etcdadm, which replaces") {
		s.HardeningOff = true
	} else if !hardened {
		m.note("the unit will be sandboxed, which it is not now; service.hardeningOff prevents that")
	}
}

// execStart takes over where the binaries are.
func (m *migration) execStart(value string) {
	program, arguments, _ := strings.Cut(value, " ")
	if rest, quoted := strings.CutPrefix(value, `"`); quoted {
		program, arguments, _ = strings.Cut(rest, `"`)
	}
	program = strings.ReplaceAll(program, "%%", "%")
	if path.Base(program) != "etcd" || !path.IsAbs(program) {
		m.note("ExecStart is %s: etcdadm starts etcd in the directory paths.install", value)
		return
	}
	if strings.TrimSpace(arguments) != "" {
		m.note("the arguments of ExecStart are left out: %s; they belong to etcd.flags", strings.TrimSpace(arguments))
	}
	m.c.Paths.Install = path.Dir(program)
}

// settings returns the lines KEY=VALUE of a section of a unit.
func settings(unit, section string) []string {
	var out []string
	inside := false
	for line := range strings.Lines(strings.ReplaceAll(unit, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		key, value, ok := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(line, "["):
			inside = line == "["+section+"]"
		case strings.HasPrefix(line, "#"), strings.HasPrefix(line, ";"), !ok, !inside:
		default:
			out = append(out, strings.TrimSpace(key)+"="+strings.TrimSpace(value))
		}
	}
	return out
}

// A pod is what a static pod says that matters here.
type pod struct {
	Kind string `yaml:"kind"`
	Spec struct {
		SecurityContext struct {
			RunAsUser  *int64 `yaml:"runAsUser"`
			RunAsGroup *int64 `yaml:"runAsGroup"`
		} `yaml:"securityContext"`
		Containers []container `yaml:"containers"`
	} `yaml:"spec"`
}

type container struct {
	Name, Image string
	Env         []struct{ Name, Value string }
	Resources   struct {
		Requests struct{ CPU, Memory string }
	}
}

// manifest takes over what the kubelet is given, and returns etcd's environment.
func (m *migration) manifest(from Source) (map[string]string, error) {
	var p pod
	if err := yaml.Unmarshal([]byte(from.Text), &p); err != nil {
		return nil, fmt.Errorf("%s: %w", from.Path, err)
	}
	i := slices.IndexFunc(p.Spec.Containers, func(c container) bool { return c.Name == "etcd" })
	if p.Kind != "Pod" || i < 0 {
		return nil, fmt.Errorf("%s is not a pod with a container etcd", from.Path)
	}
	c := p.Spec.Containers[i]
	s := &m.c.Service
	s.InitSystem, s.CPU, s.Memory = machine.Kubelet, c.Resources.Requests.CPU, c.Resources.Requests.Memory
	m.c.Paths.Manifests = path.Dir(from.Path)
	if base := path.Base(from.Path); base != initfiles.ManifestName {
		m.note("the new manifest will be %s: remove %s when that exists", initfiles.ManifestName, base)
	}
	if id := p.Spec.SecurityContext.RunAsUser; id != nil {
		s.User = strconv.FormatInt(*id, 10)
	}
	if id := p.Spec.SecurityContext.RunAsGroup; id != nil {
		s.Group = strconv.FormatInt(*id, 10)
	}
	m.image(c.Image)
	vars := map[string]string{}
	for _, v := range c.Env {
		// The kubelet takes two $ for one.
		vars[v.Name] = strings.ReplaceAll(v.Value, "$$", "$")
	}
	return vars, nil
}

// image takes over the repository and the version, if its tag is one.
func (m *migration) image(image string) {
	slash := strings.LastIndex(image, "/")
	colon := strings.LastIndex(image, ":")
	if colon <= slash || strings.Contains(image, "@") {
		m.c.Service.ImageRepository = image
		return
	}
	repository, tag := image[:colon], image[colon+1:]
	v, err := etcdversion.Parse(tag)
	if err != nil {
		m.c.Service.ImageRepository = image
		return
	}
	m.c.Service.ImageRepository, m.c.Version = repository, v
	plain := v
	plain.Pre = ""
	if initfiles.Image(repository, plain) == image {
		m.c.Version = plain // the tag's end is the repository's, not the version's
	}
}
