package etcdadm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/render"
)

// What the commands of a managed cluster print for programs has exactly the fields of
// docs/cluster-api.md, with their types; those that are always there are there.
func TestFieldsOfTheContract(t *testing.T) {
	file := filepath.Join(t.TempDir(), "world.json")
	t.Chdir(t.TempDir())
	t.Setenv("ETCDADM_TEST_WORLD", file)
	t.Setenv("ETCDADM_NODES", "10.0.0.1:8000")
	now := time.Now()
	full, err := bootstrappedWorld(now)
	if err != nil {
		t.Fatal(err)
	}
	page, always := documentedFields(t), documentedAlways(t)
	for kind, c := range map[string]struct {
		typ  reflect.Type
		args []string
	}{
		"ClusterObservation": {reflect.TypeFor[cluster.Observation](), []string{"observe", "-o", "json"}},
		"ClusterStatus":      {reflect.TypeFor[render.Status](), []string{"status", "-o", "json"}},
		"OperationResult":    {reflect.TypeFor[result](), []string{"member", "move-leader", "--to=b", "-o", "json"}},
	} {
		for name, want := range page[kind] {
			typ, sometimes := strings.CutSuffix(want, ", at times")
			field, exists := fieldOf(c.typ, name)
			if !exists {
				t.Errorf("%s has no field %s", kind, name)
			}
			if sometimes == always[kind][name] {
				t.Errorf("%s: the two tables do not agree on whether %s is always there", kind, name)
			}
			if omits := strings.Contains(field.Tag.Get("json"), ",omit"); omits && !sometimes && name != "report" ||
				!omits && sometimes {
				t.Errorf("%s: %s is %q, and its tag %q", kind, name, want, field.Tag)
			}
			page[kind][name] = typ
		}
		for field := range c.typ.Fields() {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); page[kind][name] == "" {
				t.Errorf("%s: nobody knows of %s", kind, name)
			}
		}
		for name, w := range map[string]fakeWorld{"empty": emptyWorld(now), "full": full} {
			if kind == "OperationResult" && name == "empty" {
				continue // there is nobody to lead
			}
			if err := (&fake{file: file, w: w}).write(); err != nil {
				t.Fatal(err)
			}
			checkFields(t, kind, name, printed(t, c.args), page[kind], always[kind])
		}
	}
}

// checkFields compares an object with the page.
func checkFields(t *testing.T, kind, world string, object map[string]any, types map[string]string,
	always map[string]bool) {
	t.Helper()
	if object["apiVersion"] != cli.OutputVersion || object["kind"] != kind {
		t.Errorf("%s of the %s world is a %v of %v", kind, world, object["kind"], object["apiVersion"])
	}
	for name, v := range object {
		is := map[reflect.Kind]string{
			reflect.String: "string", reflect.Float64: "number", reflect.Bool: "boolean", reflect.Slice: "list",
			reflect.Map: "object",
		}[reflect.ValueOf(v).Kind()]
		// A list of nothing may be null.
		if name != "apiVersion" && name != "kind" && is != types[name] && (v != nil || types[name] != "list") {
			t.Errorf("%s of the %s world: %s is %s, want %s", kind, world, name, is, types[name])
		}
	}
	for name := range always {
		if _, there := object[name]; !there {
			t.Errorf("%s of the %s world has no %s", kind, world, name)
		}
	}
}

// fieldOf returns the field of a struct that has a name as JSON.
func fieldOf(typ reflect.Type, name string) (reflect.StructField, bool) {
	for f := range typ.Fields() {
		if is, _, _ := strings.Cut(f.Tag.Get("json"), ","); is == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// printed runs a command on the fake cluster, and returns the object that it prints.
func printed(t *testing.T, args []string) map[string]any {
	t.Helper()
	root := newTree(openFake, findFake)
	var out, errs strings.Builder
	root.SetOut(&out)
	root.SetErr(&errs)
	if code := cli.Run(t.Context(), root, args); code != 0 {
		t.Fatalf("%q: %d, %s", args, code, errs.String())
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(out.String()), &object); err != nil {
		t.Fatalf("%q: %v: %s", args, err, out.String())
	}
	return object
}

func clusterPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(source, "..", "..", "..", "docs", "cluster-api.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// documentedFields reads the page's table of fields: their types, by kind and name.
func documentedFields(t *testing.T) map[string]map[string]string {
	t.Helper()
	kinds := map[string]map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z]+)` \\| `([A-Za-z]+)` \\| ([a-z, ]+) \\|")
	for _, m := range row.FindAllStringSubmatch(clusterPage(t), -1) {
		if kinds[m[1]] == nil {
			kinds[m[1]] = map[string]string{}
		}
		kinds[m[1]][m[2]] = m[3]
	}
	if len(kinds) != 3 {
		t.Fatalf("the page has the fields of %d kinds", len(kinds))
	}
	return kinds
}

// documentedAlways reads the page's table of kinds: the fields that are always there.
func documentedAlways(t *testing.T) map[string]map[string]bool {
	t.Helper()
	kinds := map[string]map[string]bool{}
	row := regexp.MustCompile("(?m)^\\|[^|]*\\| `([A-Z][A-Za-z]+)` \\| ([^;|]*)")
	for _, m := range row.FindAllStringSubmatch(clusterPage(t), -1) {
		kinds[m[1]] = map[string]bool{}
		for word := range strings.SplitSeq(m[2], ",") {
			kinds[m[1]][strings.Trim(word, " `")] = true
		}
	}
	return kinds
}

// source is the directory of this file: the tests go elsewhere.
var source, _ = os.Getwd()
