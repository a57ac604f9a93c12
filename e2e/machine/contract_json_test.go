//go:build e2e

package machine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
)

// What programs parse is what docs/cluster-api.md says, of real commands on a real
// member.
func TestOutputForPrograms(t *testing.T) {
	t.Parallel()
	a, b := newHost(t, "a", v36), newHost(t, "b", v36)
	documented := kinds(t)
	// These need daemons, or data of etcd 2, and are checked where those are; those of a
	// managed cluster field by field (TestFieldsOfTheContract).
	checked := map[string]bool{
		"ClusterObservation": true, "ClusterStatus": true, "OperationResult": true, "Handover": true, "Migration": true,
		"TermReset": true, "Dashboard": true,
	}
	check := func(out, kind string) map[string]json.RawMessage {
		t.Helper()
		var object map[string]json.RawMessage
		a.unmarshal(out, &object)
		if string(object["apiVersion"]) != `"etcdadm.dev/v1"` || string(object["kind"]) != `"`+kind+`"` {
			t.Errorf("it is a %s of %s, want %s", object["kind"], object["apiVersion"], kind)
		}
		if len(documented[kind]) == 0 {
			t.Errorf("%s is not documented", kind)
		}
		for _, field := range documented[kind] {
			if _, there := object[field]; !there {
				t.Errorf("%s has no %s", kind, field)
			}
		}
		checked[kind] = true
		return object
	}
	want := func(object map[string]json.RawMessage, field, value string) {
		t.Helper()
		if got := string(object[field]); got != value {
			t.Errorf("%s is %s, want %s", field, got, value)
		}
	}
	object := check(a.ok("preflight", "-o", "json"), "Preflight")
	want(object, "ready", "true")
	want(object, "wait", "false")
	check(a.ok("init", "--dry-run", "-o", "json"), "Steps")
	check(a.ok("init", "-o", "json"), "MemberResult")
	check(a.ok("info"), "MemberInfo")
	check(a.ok("status", "-o", "json"), "MachineStatus")
	check(a.ok("observe"), "MachineStatus")

	// What stops a join is reported at once, before anything is done.
	r := b.fails(3, []string{"ca-missing"}, "preflight", "-o", "json", "--endpoints", a.clientURL())
	object = check(r.stdout, "Preflight")
	want(object, "ready", "false")
	want(object, "action", `"join"`)
	var failure struct {
		Kind string
		Code int
	}
	if lines := strings.Split(strings.TrimSpace(r.stderr), "\n"); json.Unmarshal([]byte(lines[len(lines)-1]),
		&failure) != nil ||
		failure.Kind != "held" || failure.Code != 3 {
		t.Errorf("the error is %s", r.stderr)
	}
	b.copyCA(a)
	want(check(b.ok("preflight", "-o", "json", "--endpoints", a.clientURL()), "Preflight"), "ready", "true")
	late := check(b.ok("preflight", "-o", "json", "--endpoints", "https://127.0.0.1:1"), "Preflight")
	want(late, "ready", "true")
	want(late, "wait", "true")
	b.nothing()
	check(b.ok("join", "phase", "certificates", a.clientURL(), "-o", "json"), "MemberResult")
	check(b.ok("join", a.clientURL(), "-o", "json"), "MemberResult")
	onEtcd(a, check)
	check(b.ok("reset", "-o", "json", "--dry-run"), "Steps")
	check(a.ok("remove", "b", "--force", "-o", "json"), "MemberResult")
	check(b.ok("reset", "--skip-remove-member", "-o", "json"), "MemberResult")
	check(a.ok("preflight", "--list", "-o", "json"), "PreflightChecks")
	check(a.ok("seed", a.path("store"), "nodes=1", "version="+v36, "-o", "json"), "Seed")
	check(a.ok("auto", "pki", "--pki-dir", a.path("daemons"), "-o", "json"), "DaemonAuthorities")
	check(a.ok("upgrade", "check", "-o", "json"), "UpgradeCheck")
	check(a.ok("certs", "check-expiration", "-o", "json"), "CertificateExpiration")
	check(a.ok("certs", "renew", "all", "-o", "json"), "CertificateRenewal")
	check(a.ok("certs", "generate-csr", "-o", "json"), "CertificateRequests")
	check(a.ok("certs", "rotate-ca", "prepare", "-o", "json"), "AuthorityRotation")
	check(a.ok("certs", "rotate-ca", "status", "-o", "json"), "AuthorityRotationStatus")
	check(a.ok("config", "validate", "--name=a", "-o", "json"), "ConfigValidation")
	check(a.ok("download", "-o", "json"), "Release")
	ca, err := certs.NewCA(certs.CASpec{CommonName: certs.ManagerCA, Lifetime: time.Hour}, time.Now())
	if err == nil {
		err = ca.Write(a.path("manager"), certs.ManagerCA)
	}
	if err != nil {
		t.Fatal(err)
	}
	check(a.ok("certs", "user", "anna", "--pki-dir", a.path("manager"), "-o", "json"), "PersonCertificate")
	check(a.ok("certs", "client", "ben", "--out-dir", a.path("ben"), "-o", "json"), "ClientCertificate")
	a.write(a.path("o.json"), `{"at": "2026-01-02T03:04:05Z"}`, 0o600)
	plan := []string{"plan", "--observation", a.path("o.json"), "--spec-member-count=1", "--spec-etcd-version=" + v36}
	check(a.fails(3, nil, append(plan, "-o", "json")...).stdout, "Plan")
	plan = []string{"upgrade", "plan", "--observation", a.path("o.json"), "--to=" + v36}
	check(a.fails(3, nil, append(plan, "-o", "json")...).stdout, "UpgradePlan")
	if len(documented) != len(checked) {
		t.Errorf("checked are %d kinds, and %d are documented: %v", len(checked), len(documented), checked)
	}
}

// onEtcd runs the commands on a running etcd.
func onEtcd(h *host, check func(out, kind string) map[string]json.RawMessage) {
	file := h.path("saved.db")
	check(h.ok("alarm", "list", "-o", "json"), "Alarms")
	check(h.ok("defrag", "-o", "json"), "Defragmentation")
	check(h.ok("move-leader", "-o", "json"), "LeaderMove")
	check(h.ok("snapshot", "save", file, "-o", "json"), "SavedSnapshot")
	check(h.ok("snapshot", "save", "file://"+h.path("backups"), "-o", "json"), "SavedBackup")
	check(h.ok("snapshot", "status", file, "-o", "json"), "SnapshotStatus")
	check(h.ok("snapshot", "restore", file, "-o", "json", "--data-dir", h.path("restored"), "--install-dir", h.path("bin"),
		"--environment-dir", h.path("etc")), "RestoredSnapshot")
}

// kinds reads the table of docs/cluster-api.md: the fields of each kind that are
// always there.
func kinds(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "cluster-api.md"))
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string][]string{}
	row := regexp.MustCompile("(?m)^\\|[^|]*\\| `([A-Z][A-Za-z]+)` \\| ([^;|]*)")
	for _, line := range row.FindAllStringSubmatch(string(page), -1) {
		for _, word := range strings.Split(line[2], ",") {
			fields[line[1]] = append(fields[line[1]], strings.Trim(word, " `"))
		}
	}
	return fields
}
