package hygiene

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// A Layer says what a package may import: packages of lower layers, and the
// standard library.
type Layer int

// The layers, bottom up.
const (
	// Leaf packages import only the standard library, and everybody above the
	// decisions may import them.
	Leaf Layer = iota
	// Pure packages decide. They import the standard library and each other.
	Pure
	// Edge packages touch one thing outside. They do not import each other.
	Edge
	// Join packages bring the edges together with the decisions.
	Join
	// Fleet is nodes, members, store and lease as one thing to check and act on.
	Fleet
	// Loop packages run the joins.
	Loop
	// Daemon puts the daemon together.
	Daemon
	// Command packages are the command lines.
	Command
	// Main packages are the programs.
	Main
	// Tool packages serve the developers; they stand beside the layers.
	Tool
	// EndToEnd tests may import everything.
	EndToEnd
)

// layers says which layer a package is in. A name stands for the package and
// those below it, its family. A package that is not here is a mistake: where
// it belongs is to be decided when it is made.
var layers = map[string]Layer{
	"pkg/coordination/listen": Leaf,
	"pkg/testing/existing":    Edge,
	"pkg/testing/crashrun":    Edge,
	"pkg/testing/testchild":   Leaf,
	"pkg/testing/testport":    Leaf,
	"pkg/testing/testproxy":   Leaf,
	"pkg/testing/testpty":     Leaf,
	"pkg/testing/testwait":    Leaf,
	"pkg/internal/crashpoint": Leaf,
	"pkg/internal/logfile":    Leaf,
	"pkg/internal/hostaddr":   Leaf,
	"pkg/internal/proxies":    Leaf,
	"pkg/internal/timerslack": Leaf,
	"pkg/internal/wait":       Leaf,

	"pkg/internal/backoff":   Pure,
	"pkg/internal/bytesize":  Pure,
	"pkg/internal/netreason": Pure,
	"pkg/cluster":            Pure,
	"pkg/etcd/datadir":       Pure,
	"pkg/etcd/etcdconf":      Pure,
	"pkg/etcd/etcdlog":       Pure,
	"pkg/etcd/etcdversion":   Pure,
	"pkg/host/initfiles":     Pure,
	"pkg/coordination/lease": Pure,
	"pkg/host/machine":       Pure,
	"pkg/cluster/plan":       Pure,
	"pkg/cluster/retention":  Pure,
	"pkg/internal/shell":     Pure,
	"pkg/internal/spelling":  Pure,

	"pkg/backup":                       Edge,
	"pkg/certs":                        Edge,
	"pkg/host/configfile":              Edge,
	"pkg/coordination/discovery":       Edge,
	"pkg/etcd/etcdbin":                 Edge,
	"pkg/etcd/etcdclient":              Edge,
	"pkg/etcd/etcdproc":                Edge,
	"pkg/etcd/etcdrelease":             Edge,
	"pkg/etcd/etcdutl":                 Edge,
	"pkg/etcd/hazards":                 Edge,
	"pkg/etcd/internal/pages":          Edge,
	"pkg/coordination/gossip":          Edge,
	"pkg/coordination/internal/nodepb": Edge,
	"pkg/internal/hostfs":              Edge,
	"pkg/host/initsystem":              Edge,
	"pkg/node/nodestate":               Edge,
	"pkg/coordination/rpc":             Edge,
	"pkg/etcd/snapshot":                Edge,
	"pkg/store":                        Edge,
	"pkg/host/volumes":                 Edge,
	"pkg/internal/keystone":            Edge,

	"pkg/node/nodeobserve":   Join,
	"pkg/node/apply":         Join,
	"pkg/backup/backupagent": Join,
	"pkg/backup/drill":       Join,
	"pkg/testing/etcdtest":   Join,
	"pkg/daemon/observe":     Join,
	"pkg/etcd/migrate":       Join,

	"pkg/store/cloud": Join,

	"pkg/daemon/fleet": Fleet,
	// The simulator plays the decisions on what observe makes of raw answers.
	"pkg/cluster/sim":  Fleet,
	"pkg/host/operate": Fleet,
	"pkg/backup/stage": Fleet,

	"pkg/cli":              Loop,
	"pkg/host/handover":    Loop,
	"pkg/daemon/reconcile": Loop,

	"pkg/daemon": Daemon,

	"pkg/command": Command,

	"etcd-backup":      Main,
	"etcd-manager":     Main,
	"etcd-manager-ctl": Main,
	"etcdadm":          Main,

	"hack":      Tool,
	"hack/dist": Tool,
	"images":    Tool,

	"e2e": EndToEnd,
}

// An Allowance is an import against the layers, with the reason for it.
type Allowance struct{ From, To, Reason string }

// allowances lists the imports against the layers.
var allowances = []Allowance{
	{"pkg/node/nodestate", "pkg/internal/hostfs", "what a node remembers is files, which one package writes durably"},
	{"pkg/backup", "pkg/etcd/snapshot", "a backup is a snapshot stream, whose digest one package checks"},
	{"pkg/certs", "pkg/internal/hostfs", "keys and certificates are files, which one package writes durably"},
	{"pkg/etcd/etcdproc", "pkg/internal/hostfs", "a lock of a process that was killed is waited for in one package"},
	{"pkg/etcd/etcdrelease", "pkg/internal/hostfs", "what is installed appears as a whole or not at all"},
	{"pkg/etcd/etcdrelease", "pkg/etcd/etcdbin", "one package asks a binary for its version"},
	{"pkg/etcd/etcdutl", "pkg/etcd/etcdbin", "one package asks a binary for its version"},
	{"pkg/host/initsystem", "pkg/internal/hostfs", "what starts etcd is written as a whole or not at all"},
	{"pkg/etcd/hazards", "pkg/etcd/internal/pages", "a member's database is a file of bbolt, which one package reads"},
	{"pkg/etcd/snapshot", "pkg/etcd/internal/pages", "a snapshot is a file of bbolt, which one package reads"},
	{"pkg/etcd/snapshot", "pkg/internal/hostfs", "a snapshot file appears as a whole or not at all"},
	{"pkg/coordination/gossip", "pkg/coordination/internal/nodepb", "the protocol between daemons is described once"},
	{"pkg/coordination/rpc", "pkg/coordination/internal/nodepb", "the protocol between daemons is described once"},
	{"pkg/host/volumes", "pkg/internal/keystone", "one package logs in to OpenStack, for its volumes and its stores"},
	{"pkg/node/apply", "pkg/node/nodeobserve", "an operation is held to what the node observes right before it acts"},
	{"hack", "pkg/host/machine", "the page of phases, checks and holds is made from them"},
	{"hack", "pkg/cluster/plan", "the pages of the operations and holds are made from them"},
	{"hack", "pkg/cli", "the page of exit codes is made from their table"},
	{"hack", "pkg/daemon", "the page of metrics is made from those that a daemon serves"},
	{"hack", "pkg/cluster", "the page of metrics names their port"},
	{"hack/dist", "pkg/cli", "manual pages name the version that is built"},
	{"hack/dist", "images", "archives, packages and images have the same licenses"},
	{"hack/dist", "pkg/command", "packages have manual pages and completions, which are made from the commands"},
	{"hack/dist", "pkg/host/initfiles", "the units of packages are those that etcdadm writes"},
}

// An Owner says which packages alone may import a library, test files
// included.
type Owner struct {
	Library string
	Owners  []string
	Reason  string
}

// owners lists the libraries that are not for everybody.
var owners = []Owner{
	{"github.com/hashicorp/memberlist", []string{"pkg/coordination/gossip"}, "gossip is a hint behind one interface"},
	{"github.com/spf13", []string{"pkg/command", "pkg/cli"}, "only the command line knows about flags and commands"},
	{"go.etcd.io/etcd/server", []string{"e2e"}, "an etcd server inside the process links 126 modules"},
	{"sigs.k8s.io/kind", []string{"e2e"}, "only end-to-end tests make Kubernetes clusters"},
	{"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm", []string{"pkg/host/volumes/clouds/internal/azure"},
		"a cloud's SDK is linked only where volumes are attached"},
	{"google.golang.org/api/compute", []string{"pkg/host/volumes/clouds/internal/gce",
		"pkg/host/volumes/volumestest/gcetest"},
		"a cloud's SDK is linked only where volumes are attached"},
	{"github.com/digitalocean/godo", []string{"pkg/host/volumes/clouds/internal/do",
		"pkg/host/volumes/volumestest/dotest"},
		"a cloud's SDK is linked only where volumes are attached"},
	{"github.com/hetznercloud/hcloud-go", []string{"pkg/host/volumes/clouds/internal/hetzner",
		"pkg/host/volumes/volumestest/hetznertest"},
		"a cloud's SDK is linked only where volumes are attached"},
	{"github.com/scaleway/scaleway-sdk-go", []string{"pkg/host/volumes/clouds/internal/scaleway"},
		"a cloud's SDK is linked only where volumes are attached"},
	{"golang.org/x/net", []string{"pkg/coordination/discovery"}, "who is found nearby proves itself in one place"},
	{"github.com/gophercloud/gophercloud",
		[]string{"pkg/host/volumes/clouds/internal/openstack", "pkg/store/cloud", "pkg/internal/keystone"},
		"a cloud's SDK is linked only where it is asked"},
	{Prefix + "pkg/host/volumes/clouds", []string{"etcd-manager", "e2e/standin", "pkg/host/volumes/clouds"},
		"the SDKs of clouds are linked only into the daemon"},
	{"text/template", []string{"hack", "images", "e2e"},
		"with a template the linker keeps every exported method of every type: etcdadm had 48 MB for one"},
	{"gocloud.dev/blob/azureblob", mains, "cloud drivers are linked only where they are needed"},
	{"google.golang.org/api/storage", []string{"pkg/store/cloud"}, "a cloud's SDK is linked only where it is asked"},
	{"cloud.google.com/go/storage", []string{"e2e"}, "it links what exports metrics of gRPC: 3 MB of etcd-manager"},
	{"gocloud.dev/blob/s3blob", mains, "cloud drivers are linked only where they are needed"},
}

var mains = []string{"etcd-backup", "etcd-manager", "etcd-manager-ctl", "etcdadm", "e2e", "pkg/store/cloud"}

// within says whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// family returns the nearest entry of the table of layers that a path belongs
// to, "" if there is none.
func family(path string) string {
	longest := ""
	for name := range layers {
		if within(path, name) && len(name) > len(longest) {
			longest = name
		}
	}
	return longest
}

// CheckImports returns what is wrong with the imports of the packages.
func CheckImports(packages []Package) []string {
	var wrong []string
	for _, p := range packages {
		if family(p.Path()) == "" {
			wrong = append(wrong, p.Path()+" is not in the table of layers; decide where it belongs")
			continue
		}
		for _, to := range p.Imports {
			if why := against(p.Path(), to); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s imports %s: %s", p.Path(), strings.TrimPrefix(to, Prefix), why))
			}
		}
		for _, to := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if why := notOwner(p.Path(), to); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s imports %s: %s", p.Path(), to, why))
			}
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

// against returns why an import is against the layers, "" if it is not.
func against(from, to string) string {
	source := family(from)
	layer := layers[source]
	if !strings.HasPrefix(to, Prefix) {
		standard := !strings.Contains(strings.Split(to, "/")[0], ".")
		if !standard && (layer == Leaf || layer == Pure) {
			return "a decision or leaf depends on nothing outside the project and the standard library"
		}
		return ""
	}
	if forTests(to) && !forTests(from) && layer != EndToEnd {
		return "what is made for tests is imported by tests only"
	}
	if layer == Command && path.Base(from) == path.Base(to) {
		return "a package of commands has another name than what it is made of"
	}
	target := family(strings.TrimPrefix(to, Prefix))
	if target == source || layer == EndToEnd || allowed(source, target) {
		return ""
	}
	switch {
	case target == "":
		return "it is not in the table of layers"
	case layer == Tool:
		return "a developers' tool stands apart"
	case layer == Pure && layers[target] != Pure:
		return "a decision depends on decisions only"
	case layer == Pure:
		return ""
	case layers[target] == layer:
		return "packages of this layer do not import each other"
	case layers[target] > layer:
		return "imports go down the layers"
	}
	return ""
}

// forTests says whether a package is made for tests: one of the room of tests, the simulator, or the
// fakes of a package, which have its name and "test".
func forTests(importPath string) bool {
	dir := strings.TrimPrefix(importPath, Prefix)
	return within(dir, "pkg/testing") || within(dir, "pkg/cluster/sim") ||
		strings.HasPrefix(dir, "pkg/") && strings.HasSuffix(dir, "test")
}

func allowed(from, to string) bool {
	return slices.ContainsFunc(allowances, func(a Allowance) bool { return a.From == from && a.To == to })
}

// notOwner returns why a package may not import a library, "" if it may.
func notOwner(from, to string) string {
	for _, o := range owners {
		mine := slices.ContainsFunc(o.Owners, func(owner string) bool { return within(from, owner) })
		if within(to, o.Library) && !mine {
			return o.Reason
		}
	}
	return ""
}

// Missing returns the entries of the table of layers that have no package,
// and the allowances that nobody uses.
func Missing(packages []Package) []string {
	names, used := map[string]bool{}, map[Allowance]bool{}
	for _, p := range packages {
		from := family(p.Path())
		names[from] = true
		for _, to := range p.Imports {
			for _, a := range allowances {
				if a.From == from && within(strings.TrimPrefix(to, Prefix), a.To) {
					used[a] = true
				}
			}
		}
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(layers)) {
		if !names[name] {
			missing = append(missing, name)
		}
	}
	for _, a := range allowances {
		if !used[a] {
			missing = append(missing, a.From+" -> "+a.To)
		}
	}
	return missing
}

// CheckComments returns the packages whose comment is missing or does not
// begin as package comments do.
func CheckComments(packages []Package) []string {
	var wrong []string
	for _, p := range packages {
		if len(p.GoFiles) == 0 {
			continue // only tests
		}
		begin := "Package " + p.Name + " "
		if p.Name == "main" {
			begin = "Command "
		}
		if !strings.HasPrefix(p.Doc, begin) {
			wrong = append(wrong, fmt.Sprintf("%s: the package comment is %q and should begin with %q", p.Path(), p.Doc, begin))
		}
	}
	return wrong
}
