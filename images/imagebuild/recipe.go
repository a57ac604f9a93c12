package imagebuild

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/etcdadm/etcdadm/images/etcdbuild"
)

// Users of the images. Nonroot has the ids that distroless images use for it.
const (
	root    = "0:0"
	nonroot = "65532:65532"
)

// A recipe says what an image holds and how it is run.
type recipe struct {
	// Name is the image's repository below the registry's prefix.
	Name string
	// Etcd is the version of the etcd in the image, "" for an image of our programs.
	Etcd string
	// Description is one line for those who list images.
	Description string
	// Programs has the place of each program in the image, by its name. Those of
	// one's own and the log runner are in layers of their own.
	Programs map[string]string
	// Names has further places, each with that of the program whose file is there, too.
	// It is the program that it is called.
	Names map[string]string
	// Links has the target of each symbolic link in the image.
	Links map[string]string
	// Dirs are directories for mounts.
	Dirs []string
	// User runs the program.
	User string
	// Entrypoint and Cmd are the image's command.
	Entrypoint, Cmd []string
	// Ports are what the program listens on, for those who look at images.
	Ports []string
}

// logRunner is the program that kops starts the manager with. It is that of
// Kubernetes, under the name that its images give it.
const logRunner = "go-runner"

// ours are the images of this project's programs. The places /ko-app and /go-runner, and
// the link /etcd-manager, are those that kops' manifests name.
var ours = []recipe{
	{
		Name:        "etcd-manager",
		Description: "keeps an etcd cluster as its spec says: one daemon on each machine",
		Programs: map[string]string{
			logRunner: "/go-runner", "etcd-manager": "/ko-app/etcd-manager",
		},
		Names: map[string]string{
			"/ko-app/etcd-manager-ctl": "/ko-app/etcd-manager", "/ko-app/etcdadm": "/ko-app/etcd-manager",
		},
		Links: map[string]string{
			"/etcd-manager":                   "/ko-app/etcd-manager",
			"/usr/local/bin/etcd-manager":     "/ko-app/etcd-manager",
			"/usr/local/bin/etcd-manager-ctl": "/ko-app/etcd-manager-ctl",
			"/usr/local/bin/etcdadm":          "/ko-app/etcdadm",
		},
		User:       root, // it mounts volumes and writes the host's files
		Entrypoint: []string{"/ko-app/etcd-manager"},
	},
	{
		Name:        "etcd-manager-ctl",
		Description: "reads an etcd-manager's backup store and queues requests in it",
		Programs:    map[string]string{"etcd-manager-ctl": "/ko-app/etcd-manager-ctl"},
		Links:       map[string]string{"/usr/local/bin/etcd-manager-ctl": "/ko-app/etcd-manager-ctl"},
		User:        nonroot,
		Entrypoint:  []string{"/ko-app/etcd-manager-ctl"},
	},
	{
		Name:        "etcd-backup",
		Description: "backs up any etcd into a store of etcd-manager's format",
		Programs:    map[string]string{"etcd-backup": "/ko-app/etcd-backup"},
		Links:       map[string]string{"/usr/local/bin/etcd-backup": "/ko-app/etcd-backup"},
		User:        nonroot,
		Entrypoint:  []string{"/ko-app/etcd-backup"},
	},
	{
		Name:        "etcdadm",
		Description: "makes, changes and restores etcd clusters from the command line",
		Programs:    map[string]string{"etcdadm": "/usr/local/bin/etcdadm"},
		User:        root, // it writes the host's files
		Entrypoint:  []string{"/usr/local/bin/etcdadm"},
	},
}

// etcdRecipe is the image of a version of etcd: the programs at the places of the
// images that Kubernetes publishes, which kubeadm, kops and others read them from.
func etcdRecipe(version string) recipe {
	return recipe{
		Name: "etcd", Etcd: version,
		Description: "etcd " + version + " with its tools",
		Programs: map[string]string{
			"etcd": "/usr/local/bin/etcd", "etcdctl": "/usr/local/bin/etcdctl", "etcdutl": "/usr/local/bin/etcdutl",
		},
		Dirs: []string{"/var/etcd", "/var/lib/etcd"},
		User: root, // as those images: the data of running clusters is root's
		Cmd:  []string{"/usr/local/bin/etcd"}, Ports: []string{"2379/tcp", "2380/tcp"},
	}
}

// choose returns the recipes that args name: all of them where args is empty, an image of
// ours by its name, the versions of etcd that are supported by "etcd", and one by
// "etcd:3.6.16".
func choose(args, versions []string) ([]recipe, error) {
	if len(args) == 0 {
		for _, r := range ours {
			args = append(args, r.Name)
		}
		args = append(args, "etcd")
	}
	var chosen []recipe
	for _, arg := range args {
		found := matching(arg, versions)
		if len(found) == 0 {
			return nil, unknownError(arg, versions)
		}
		for _, r := range found {
			if !slices.ContainsFunc(chosen, func(c recipe) bool { return c.ref("") == r.ref("") }) {
				chosen = append(chosen, r)
			}
		}
	}
	return chosen, nil
}

func matching(arg string, versions []string) []recipe {
	for _, r := range ours {
		if r.Name == arg {
			return []recipe{r}
		}
	}
	var found []recipe
	for _, v := range versions {
		named := strings.TrimPrefix(arg, "etcd:") == v || strings.TrimPrefix(arg, "etcd:v") == v
		if named || arg == "etcd" && slices.Contains(etcdbuild.Supported, v) {
			found = append(found, etcdRecipe(v))
		}
	}
	return found
}

func unknownError(arg string, versions []string) error {
	var known []string
	for _, r := range ours {
		known = append(known, r.Name)
	}
	known = append(known, "etcd")
	for _, v := range versions {
		known = append(known, "etcd:"+v)
	}
	return fmt.Errorf("%w: there is no image %q; there are %s", errUsage, arg, strings.Join(known, ", "))
}

// tag returns the image's tag, where version is that of our programs.
func (r recipe) tag(version string) string {
	if r.Etcd != "" {
		return "v" + r.Etcd
	}
	return version
}

// ref returns the image's name and tag below a registry's prefix.
func (r recipe) ref(version string) string { return r.Name + ":" + r.tag(version) }

// layers returns the names of the programs of each layer, the one that changes least
// first.
func (r recipe) layers() [][]string {
	var stable, changing []string
	for name := range r.Programs {
		if name == logRunner {
			stable = append(stable, name)
		} else {
			changing = append(changing, name)
		}
	}
	slices.Sort(changing)
	if len(stable) == 0 {
		return [][]string{changing}
	}
	return [][]string{stable, changing}
}

// config returns how the image is run.
func (r recipe) config() v1.Config {
	c := v1.Config{
		User: r.User, Entrypoint: r.Entrypoint, Cmd: r.Cmd, WorkingDir: "/",
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"SSL_CERT_FILE=" + rootsFile,
		},
	}
	for _, p := range r.Ports {
		if c.ExposedPorts == nil {
			c.ExposedPorts = map[string]struct{}{}
		}
		c.ExposedPorts[p] = struct{}{}
	}
	return c
}
