package hygiene

import (
	"strings"
	"testing"
)

// A rule that cannot be broken is no rule: each case breaks one, or keeps to
// it in a way that is easily mistaken for breaking it.
func TestImportRules(t *testing.T) {
	const etcd = "go.etcd.io/etcd/client/v3"
	for _, c := range []struct {
		name, from, to string
		// want is part of the complaint, "" if there is none.
		want string
	}{
		{"a decision may use the standard library", "pkg/cluster/plan", "encoding/json", ""},
		{"a decision may use a decision", "pkg/cluster/plan", Prefix + "pkg/cluster", ""},
		{"a decision may not use a library", "pkg/cluster/plan", etcd, "nothing outside the project"},
		{"a decision may not use an edge", "pkg/cluster/plan", Prefix + "pkg/store", "depends on decisions only"},
		{"a decision may not use a leaf", "pkg/cluster/plan", Prefix + "pkg/internal/crashpoint",
			"depends on decisions only"},
		{"the package below a decision is one", "pkg/cluster/plan/scenario", Prefix + "pkg/coordination/gossip",
			"depends on decisions only"},
		{"a leaf may not use a library", "pkg/internal/crashpoint", etcd, "nothing outside the project"},
		{"a leaf may not use a decision", "pkg/internal/crashpoint", Prefix + "pkg/cluster/plan", "go down"},
		{"an edge may use its library", "pkg/etcd/etcdclient", etcd, ""},
		{"an edge may use a decision", "pkg/etcd/etcdproc", Prefix + "pkg/etcd/etcdconf", ""},
		{"an edge may use a leaf", "pkg/etcd/etcdproc", Prefix + "pkg/internal/crashpoint", ""},
		{"nothing that ships may use what is made for tests", "pkg/etcd/etcdproc", Prefix + "pkg/testing/testport",
			"imported by tests only"},
		{"fakes beside a package are made for tests", "pkg/daemon", Prefix + "pkg/store/storetest", "imported by tests only"},
		{"what is made for tests may use the like", "pkg/testing/etcdtest", Prefix + "pkg/testing/testport", ""},
		{"an edge may not use an edge", "pkg/coordination/gossip", Prefix + "pkg/certs", "do not import each other"},
		{"an edge may use its own family", "pkg/store/storetest", Prefix + "pkg/store", ""},
		{"an edge may use another with a reason", "pkg/node/nodestate", Prefix + "pkg/internal/hostfs", ""},
		{"the reason does not hold backwards", "pkg/internal/hostfs", Prefix + "pkg/node/nodestate",
			"do not import each other"},
		{"an edge may not use what joins edges", "pkg/store", Prefix + "pkg/daemon/observe", "go down"},
		{"the nearest entry counts", "pkg/store", Prefix + "pkg/store/cloud", "go down"},
		{"joins may use edges", "pkg/daemon/observe", Prefix + "pkg/host/volumes/external", ""},
		{"joins may not use each other", "pkg/daemon/observe", Prefix + "pkg/node/apply", "do not import each other"},
		{"a node is observed without acting on it", "pkg/node/nodeobserve", Prefix + "pkg/node/apply",
			"do not import each other"},
		{"joins may not use the loop", "pkg/node/apply", Prefix + "pkg/daemon/reconcile", "go down"},
		{"the loop may not use the command line", "pkg/daemon/reconcile", Prefix + "pkg/command/manager", "go down"},
		{"the command line may use all below", "pkg/command/manager", Prefix + "pkg/daemon/reconcile", ""},
		{"the command line may not be called like what it uses", "pkg/command/certs", Prefix + "pkg/certs", "another name"},
		{"the command line may use cobra", "pkg/command/ctl", "github.com/spf13/cobra", ""},
		{"the loop may not use cobra", "pkg/daemon/reconcile", "github.com/spf13/cobra", "knows about flags"},
		{"a name that begins alike is another", "pkg/plans", "fmt", "not in the table"},
		{"a library whose name begins alike is another", "pkg/coordination/rpc", "sigs.k8s.io/kindly", ""},
		{"only end-to-end tests embed etcd", "pkg/etcd/etcdproc", "go.etcd.io/etcd/server/v3/embed", "126 modules"},
		{"end-to-end tests embed etcd", "e2e/kubernetes", "go.etcd.io/etcd/server/v3/embed", ""},
		{"end-to-end tests may use all", "e2e/demo", Prefix + "pkg/coordination/gossip", ""},
		{"cloud drivers are not for the library", "pkg/store", "gocloud.dev/blob/s3blob", "cloud drivers"},
		{"cloud drivers are for programs", "etcd-backup", "gocloud.dev/blob/s3blob", ""},
		{"templates make programs large", "pkg/host/initfiles", "text/template", "keeps every exported method"},
		{"templates are for tools", "images/imagebuild", "text/template", ""},
		{"a program's name is not a prefix", "etcd-manager-ctl", Prefix + "etcd-manager/x", "do not import each other"},
		{"tools may not use the product", "images/etcdbuild", Prefix + "pkg/cluster", "stands apart"},
		{"the documentation uses the operations", "hack/docs", Prefix + "pkg/cluster/plan", ""},
		{"no program uses the simulator", "pkg/daemon", Prefix + "pkg/cluster/sim", "made for tests"},
		{"nobody uses what is not in the table", "pkg/node/apply", Prefix + "pkg/nonesuch", "not in the table"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := CheckImports([]Package{{ImportPath: Prefix + c.from, Imports: []string{c.to}}})
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("complains: %v", got)
			case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)):
				t.Errorf("complaint is %q, want one about %q", got, c.want)
			}
		})
	}
}

func TestTestsMayCrossLayersButNotTakeLibraries(t *testing.T) {
	p := Package{
		ImportPath:   Prefix + "pkg/coordination/rpc",
		TestImports:  []string{Prefix + "pkg/certs"},
		XTestImports: []string{"sigs.k8s.io/kind/pkg/cluster"},
	}
	got := CheckImports([]Package{p})
	if len(got) != 1 || !strings.Contains(got[0], "Kubernetes clusters") {
		t.Errorf("complaints are %q", got)
	}
}

func TestEveryExceptionHasItsReason(t *testing.T) {
	for _, a := range allowances {
		if a.Reason == "" || layers[a.From] == 0 {
			t.Errorf("allowance %+v has no reason, or is for a package that is not in the table", a)
		}
	}
	for _, o := range owners {
		if o.Reason == "" || len(o.Owners) == 0 {
			t.Errorf("%+v has no reason or no owner", o)
		}
	}
}

func TestMissingNamesWhatTheTreeLacks(t *testing.T) {
	all := []Package{{ImportPath: Prefix + "pkg/cluster/plan/scenario"}, {
		ImportPath: Prefix + "hack/docs", Imports: []string{Prefix + "pkg/cluster/plan"},
	}}
	got := " " + strings.Join(Missing(all), " ") + " "
	for word, want := range map[string]bool{
		"pkg/cluster/plan": false, "pkg/cluster/sim": true, "pkg/node/nodestate -> pkg/internal/hostfs": true,
		"hack -> pkg/cluster/plan": false,
	} {
		if strings.Contains(got, " "+word+" ") != want {
			t.Errorf("%q in the answer is %v, want %v: %s", word, !want, want, got)
		}
	}
}

func TestPackageCommentRules(t *testing.T) {
	for _, c := range []struct {
		p  Package
		ok bool
	}{
		{Package{Name: "plan", GoFiles: []string{"plan.go"}, Doc: "Package plan decides."}, true},
		{Package{Name: "plan", GoFiles: []string{"plan.go"}, Doc: "Package planner decides."}, false},
		{Package{Name: "plan", GoFiles: []string{"plan.go"}}, false},
		{Package{Name: "main", GoFiles: []string{"main.go"}, Doc: "Command etcdadm changes clusters."}, true},
		{Package{Name: "main", GoFiles: []string{"main.go"}, Doc: "Package main changes clusters."}, false},
		{Package{Name: "e2e"}, true},
	} {
		if got := CheckComments([]Package{c.p}); (len(got) == 0) != c.ok {
			t.Errorf("%+v: complaints are %q", c.p, got)
		}
	}
}
