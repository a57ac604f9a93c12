// Package alerts evaluates the alert rules of manifests/prometheus as Prometheus does, by its own
// library, and holds the dashboard of manifests/grafana to Grafana's schema. It is a module of its
// own, outside the workspace: Prometheus is for it alone.
package alerts

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

const (
	rules       = "../../manifests/prometheus/etcdadm.rules.yaml"
	backupRules = "../../manifests/prometheus/etcd-backup.rules.yaml"
	// length is that of a scene. Alerts are looked for at its end.
	length = 4 * 24 * time.Hour
)

// A scene is what lets an alert fire, and what does not.
type scene struct{ alert, firing, quiet string }

// scenes are what daemons serve, in the notation of promtool, one value each ten minutes: what lets an alert
// fire, and what is near to that and does not.
var scenes = []scene{
	{"EtcdadmQuorumAtRisk",
		`etcdadm_members{cluster="main",role="voter",healthy="true"} 2x576
		 etcdadm_members{cluster="main",role="voter",healthy="false"} 1x576`,
		`etcdadm_members{cluster="main",role="voter",healthy="true"} 3x576
		 etcdadm_members{cluster="two",role="voter",healthy="true"} 2x576`},
	{"EtcdadmMemberDown",
		`etcdadm_members{cluster="main",role="voter",healthy="true"} 4x576
		 etcdadm_members{cluster="main",role="voter",healthy="false"} 1x576`,
		`etcdadm_members{cluster="main",role="voter",healthy="true"} 5x576
		 etcdadm_members{cluster="main",role="voter",healthy="false"} 0x576
		 etcdadm_members{cluster="main",role="learner",healthy="false"} 1x576`},
	{"EtcdadmNoLeader",
		`etcdadm_etcd_has_leader{cluster="main",instance="a"} 0x576
		 etcdadm_etcd_has_leader{cluster="events",instance="a"} 1x576`,
		`etcdadm_etcd_has_leader{cluster="main",instance="a"} 0x576
		 etcdadm_etcd_has_leader{cluster="main",instance="b"} 1x576`},
	{"EtcdadmNoCoordinator",
		`etcdadm_coordinator{cluster="main",instance="a"} 0x576
		 etcdadm_coordinator{cluster="main",instance="b"} 0x576`,
		`etcdadm_coordinator{cluster="main",instance="a"} 0x576
		 etcdadm_coordinator{cluster="main",instance="b"} 1x576`},
	{"EtcdadmDiskBad",
		`etcdadm_disk_healthy{cluster="main",instance="a"} 0x576`,
		`etcdadm_disk_healthy{cluster="main",instance="a"} 1x576`},
	{"EtcdadmPeerUnreachable",
		`etcdadm_peer_unreachable{cluster="main",from="a",to="b"} 1x576`,
		`etcdadm_hold{cluster="main",reason="node-unreachable"} 1x576`},
	{"EtcdadmHold",
		`etcdadm_hold{cluster="main",reason="quorum-margin"} 1x576`,
		`etcdadm_hold{cluster="main",reason="quorum-margin"} 0x576`},
	{"EtcdadmNotConverged",
		`etcdadm_converged{cluster="main"} 0x576
		 etcdadm_paused{cluster="main"} 0x576`,
		`etcdadm_converged{cluster="main"} 0x576
		 etcdadm_paused{cluster="main"} 1x576`},
	{"EtcdadmOperationFails",
		`etcdadm_failing_operations{cluster="main"} 1x576`,
		`etcdadm_failing_operations{cluster="main"} 0x576`},
	{"EtcdadmNodeUnreachable",
		`etcdadm_node_reachable{cluster="main",node="a"} 1x576
		 etcdadm_node_reachable{cluster="main",node="b"} 0x576`,
		`etcdadm_node_reachable{cluster="main",node="a"} 1x576`},
	{"EtcdadmDaemonGone",
		`etcdadm_coordinator{cluster="main",instance="a"} 1x576
		 etcdadm_coordinator{cluster="main",instance="b"} 0x570`,
		`etcdadm_coordinator{cluster="main",instance="a",pod="x"} 1x500 _x76
		 etcdadm_coordinator{cluster="main",instance="a",pod="y"} 1 _x499 1x76
		 etcdadm_coordinator{cluster="main",instance="b"} 0x300
		 etcdadm_coordinator{cluster="events",instance="b"} 0x570`},
	{"EtcdadmEtcdRestarts",
		`etcdadm_etcd_restarts_total{cluster="main",instance="a"} 0+1x576`,
		`etcdadm_etcd_restarts_total{cluster="main",instance="a"} 0+0.25x576`},
	{"EtcdadmCoordinatorChanges",
		`etcdadm_coordinator_elected_total{cluster="main",instance="a"} 0+1x576
		 etcdadm_coordinator_elected_total{cluster="main",instance="b"} 0+1x576`,
		`etcdadm_coordinator_elected_total{cluster="main",instance="a"} 0+0.25x576
		 etcdadm_coordinator_elected_total{cluster="main",instance="b"} 0+0.25x576`},
	{"EtcdadmStoreUnreachable",
		`etcdadm_store_reachable{cluster="main"} 0x576`,
		`etcdadm_store_reachable{cluster="main"} 1x576`},
	{"EtcdadmNoBackup",
		`etcdadm_backups{cluster="main"} 0x576`,
		`etcdadm_backups{cluster="main"} 1x576`},
	{"EtcdadmBackupOld",
		`etcdadm_last_backup_timestamp_seconds{cluster="main"} 0x576`,
		`etcdadm_last_backup_timestamp_seconds{cluster="main"} 0+600x576`},
	{"EtcdadmBackupNotVerified",
		`etcdadm_last_backup_verified_timestamp_seconds{cluster="main"} 0x576`,
		`etcdadm_last_backup_verified_timestamp_seconds{cluster="main"} 0+600x576`},
	{"EtcdadmBackupDrillFails",
		`etcdadm_operation_failing{cluster="main",kind="backup drill"} 1x576`,
		`etcdadm_operation_failing{cluster="main",kind="backup take"} 1x576`},
	{"EtcdadmBackupNotDrilled",
		`etcdadm_last_backup_drill_timestamp_seconds{cluster="main"} -432000x576`,
		`etcdadm_last_backup_drill_timestamp_seconds{cluster="main"} 0x576`},
	{"EtcdadmCertificateEnds", // in ten days, in 30, never
		`etcdadm_certificate_expiry_timestamp_seconds{cluster="main",instance="a"} 1209600x576`,
		`etcdadm_certificate_expiry_timestamp_seconds{cluster="main",instance="a"} 2937600x576
		 etcdadm_certificate_expiry_timestamp_seconds{cluster="main",instance="b"} 0x576`},
	{"EtcdadmRenewalFails",
		`node_systemd_unit_state{cluster="main",instance="a",name="etcdadm-certs-renew.service",state="failed"} 1x576`,
		`node_systemd_unit_state{cluster="main",instance="a",name="etcdadm-certs-renew.service",state="failed"} 0x576
		 node_systemd_unit_state{cluster="main",instance="a",name="etcd.service",state="failed"} 1x576`},
	{"EtcdadmSpaceLow",
		`etcdadm_node_free_bytes{cluster="main",node="a"} 100x576
		 etcdadm_member_db_size_bytes{cluster="main",member="a"} 60x576
		 etcdadm_member_db_size_bytes{cluster="main",member="b"} 10x576`,
		`etcdadm_node_free_bytes{cluster="main",node="a"} 100x576
		 etcdadm_member_db_size_bytes{cluster="main",member="a"} 40x576
		 etcdadm_member_db_size_bytes{cluster="events",member="a"} 400x576`},
	{"EtcdadmDatabaseNearQuota",
		`etcdadm_member_db_size_bytes{cluster="main",member="a",instance="a"} 81x576
		 etcdadm_member_db_size_bytes{cluster="main",member="b",instance="a"} 10x576
		 etcdadm_etcd_quota_bytes{cluster="main",instance="a"} 100x576
		 etcdadm_etcd_quota_bytes{cluster="main",instance="b"} 0x576`, // b has none
		`etcdadm_member_db_size_bytes{cluster="main",member="a",instance="a"} 79x576
		 etcdadm_member_db_size_bytes{cluster="two",member="a",instance="b"} 81x576
		 etcdadm_etcd_quota_bytes{cluster="main",instance="a"} 100x576
		 etcdadm_etcd_quota_bytes{cluster="two",instance="b"} 0x576`},
	{"EtcdadmMemberNearQuota",
		`etcd_mvcc_db_total_size_in_bytes{cluster="main",instance="a"} 81x576
		 etcd_server_quota_backend_bytes{cluster="main",instance="a"} 100x576`,
		`etcd_mvcc_db_total_size_in_bytes{cluster="main",instance="a"} 79x576
		 etcd_server_quota_backend_bytes{cluster="main",instance="a"} 100x576
		 etcd_mvcc_db_total_size_in_bytes{cluster="main",instance="b"} 81x576
		 etcd_server_quota_backend_bytes{cluster="main",instance="b"} -1x576`}, // b has none
	{"EtcdadmPaused",
		`etcdadm_paused{cluster="main"} 1x576`,
		`etcdadm_paused{cluster="main"} 0x576`},
}

// A cluster whose daemons are all gone serves nothing, not that nobody coordinates.
func TestNobodyCoordinatesWhereAllDaemonsAreGone(t *testing.T) {
	const all = `etcdadm_coordinator{cluster="main",instance="a"} 1x570
		etcdadm_coordinator{cluster="main",instance="b"} 0x570`
	rule := read(t, rules)["EtcdadmNoCoordinator"]
	if !fires(t, rule, all) {
		t.Errorf("it does not fire: %s", rule.Expr)
	}
	if fires(t, rule, all+"\n"+`etcdadm_coordinator{cluster="main",instance="c"} 1x576`) {
		t.Errorf("it fires although one coordinates: %s", rule.Expr)
	}
}

// TestOneCauseIsCriticalOnce: where etcd is scraped beside its daemons, both alerts on the quota fire.
func TestOneCauseIsCriticalOnce(t *testing.T) {
	alerts := read(t, rules)
	for name, want := range map[string]string{
		"EtcdadmDatabaseNearQuota": "critical", "EtcdadmMemberNearQuota": "warning",
	} {
		if got := alerts[name].Labels["severity"]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// backupScenes are the same of what agents for backups serve.
var backupScenes = []scene{
	{"EtcdBackupMissing",
		`etcd_backup_age_seconds{cluster="main",instance="a"} 3700x576
		 etcd_backup_age_seconds{cluster="main",instance="b"} 9000x576`,
		`etcd_backup_age_seconds{cluster="main",instance="a"} 9000x576
		 etcd_backup_age_seconds{cluster="main",instance="b"} 60x576`},
	{"EtcdBackupFails",
		`etcd_backup_failures_total{cluster="main",instance="a",what="take"} 0+1x576`,
		`etcd_backup_failures_total{cluster="main",instance="a",what="take"} 0+0.25x576
		 etcd_backup_failures_total{cluster="main",instance="a",what="list"} 0+9x576`},
	{"EtcdBackupShrank",
		`etcd_backup_last_size_bytes{cluster="main",instance="a"} 100x500 40x75`,
		`etcd_backup_last_size_bytes{cluster="main",instance="a"} 100x500 60x75`},
}

func TestAlerts(t *testing.T) { testAlerts(t, read(t, rules), scenes) }

func TestAlertsOnBackups(t *testing.T) {
	alerts := read(t, backupRules)
	// What is absent has no labels.
	gone := alerts["EtcdBackupAgentGone"]
	gone.Expr = "label_replace(" + gone.Expr + `, "cluster", "main", "", "")`
	delete(alerts, "EtcdBackupAgentGone")
	if !fires(t, gone, "") || fires(t, gone, `etcd_backup_healthy{cluster="main",instance="a"} 0x576`) {
		t.Errorf("whether an agent is there does not decide: %s", gone.Expr)
	}
	testAlerts(t, alerts, backupScenes)
	page, err := os.ReadFile("../../docs/etcd-backup.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range read(t, backupRules) {
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["action"] == "" {
			t.Errorf("%s lacks a severity, a summary or what to do", name)
		}
		if !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("docs/etcd-backup.md does not have %s", name)
		}
	}
}

func testAlerts(t *testing.T, alerts map[string]rulefmt.Rule, scenes []scene) {
	t.Helper()
	for _, s := range scenes {
		rule, ok := alerts[s.alert]
		if !ok {
			t.Errorf("there is no alert %s", s.alert)
			continue
		}
		delete(alerts, s.alert)
		t.Run(s.alert, func(t *testing.T) {
			if !fires(t, rule, s.firing) {
				t.Errorf("it does not fire: %s", rule.Expr)
			}
			if fires(t, rule, s.quiet) {
				t.Errorf("it fires: %s", rule.Expr)
			}
			if fires(t, rule, "") {
				t.Errorf("it fires where nothing is served: %s", rule.Expr)
			}
		})
	}
	for name := range alerts {
		t.Errorf("no scene lets %s fire", name)
	}
}

// What fails two months before it matters is no reason to wake somebody.
func TestTheRenewalOfCertificatesIsAWarning(t *testing.T) {
	if got := read(t, rules)["EtcdadmRenewalFails"].Labels["severity"]; got != "warning" {
		t.Errorf("its severity is %q", got)
	}
}

// read returns the rules of a file by name. Prometheus refuses files that are not well-formed, and templates too.
func read(t *testing.T, file string) map[string]rulefmt.Rule {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(content, false, model.UTF8Validation, parser.NewParser(parser.Options{}),
		slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	alerts := map[string]rulefmt.Rule{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			alerts[r.Alert] = r
		}
	}
	return alerts
}

// fires reports whether the rule holds at the end of a scene, and has for as long as it has to.
func fires(t *testing.T, rule rulefmt.Rule, series string) bool {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 10m\n"+series)
	engine := promqltest.NewTestEngine(t, false, 10*time.Minute, promqltest.DefaultMaxSamplesPerQuery)
	times := []time.Duration{length - time.Duration(rule.For), length}
	return !slices.ContainsFunc(times, func(at time.Duration) bool {
		query, err := engine.NewInstantQuery(t.Context(), storage, nil, rule.Expr, time.Unix(0, 0).Add(at))
		if err != nil {
			t.Fatal(err)
		}
		defer query.Close()
		found, err := query.Exec(t.Context()).Vector()
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(found, func(s promql.Sample) bool { return s.Metric.Get("cluster") == "main" })
	})
}
