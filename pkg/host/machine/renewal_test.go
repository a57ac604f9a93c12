package machine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

const renewTimer = "/etc/systemd/system/etcdadm-certs-renew.timer"

// plan returns the plan, and the contents of the files in it.
func renewalPlan(t *testing.T, goal machine.Goal, cfg machine.Config, obs machine.Observation) (string, string) {
	t.Helper()
	list, _, err := machine.Plan(goal, cfg, obs)
	if err != nil {
		t.Fatal(err)
	}
	var content strings.Builder
	for _, s := range list {
		if w, ok := s.Do.(*machine.WriteFiles); ok && s.Phase == "renewal" {
			for _, f := range w.Files {
				content.WriteString(f.Content)
			}
		}
	}
	return steps(t, goal, cfg, obs), content.String()
}

// A member that is made on a machine with systemd has a timer that renews its certificates,
// unless nothing on the machine can, or a person has enabled another one.
func TestInitAndJoinHaveATimerRenew(t *testing.T) {
	wrote := "renewal: write /etc/systemd/system/etcdadm-certs-renew.service, " + renewTimer + "\n"
	for _, tt := range []struct {
		name   string
		goal   machine.Goal
		change func(*machine.Config, *machine.Observation)
		want   string
	}{
		{"init", machine.Goal{Action: machine.Init}, nil,
			"ExecStart=/usr/bin/etcdadm certs renew all --within=60d $ETCDADM_RENEW_FLAGS\n"},
		{"join", machine.Goal{Action: machine.Join}, nil,
			"ExecStart=/usr/bin/etcdadm certs renew all --within=60d $ETCDADM_RENEW_FLAGS\n"},
		{"a short life elsewhere", machine.Goal{Action: machine.Init},
			func(c *machine.Config, _ *machine.Observation) {
				c.Certificates.Lifetime, c.Paths.Certificates = machine.Duration(72*time.Hour), "/srv/my pki"
			}, `certs renew all --within=24h0m0s "--certs-dir=/srv/my pki" --cert-lifetime=72h0m0s $ETCDADM_RENEW_FLAGS`},
		{"skipped", machine.Goal{Action: machine.Init, Skip: []string{"renewal"}}, nil, ""},
		{"the authority's key is elsewhere", machine.Goal{Action: machine.Join},
			func(_ *machine.Config, o *machine.Observation) {
				o.PKI = machine.PKI{CA: machine.CAExternal}
			}, ""},
		{"a static pod", machine.Goal{Action: machine.Init},
			func(c *machine.Config, _ *machine.Observation) { c.Service.InitSystem = machine.Kubelet }, ""},
		{"a person's timer", machine.Goal{Action: machine.Init},
			func(_ *machine.Config, o *machine.Observation) { o.Renewal.Enabled = true }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, obs := desired(), withCA()
			obs.Renewal.Program = "/usr/bin/etcdadm"
			if tt.goal.Action == machine.Join {
				obs.Remote = answering(healthy("a", 0xa, "10.0.0.1"))
			}
			if tt.change != nil {
				tt.change(&cfg, &obs)
			}
			plan, content := renewalPlan(t, tt.goal, cfg, obs)
			if strings.Contains(plan, wrote) != (tt.want != "") || !strings.Contains(content, tt.want) {
				t.Errorf("the plan is\n%sand writes\n%s", plan, content)
			}
		})
	}
}

// What a crash left without its timer gets it, and a reset takes it away.
func TestTheTimerIsRepairedAndTakenAway(t *testing.T) {
	cfg, obs := desired(), withCA()
	obs.Renewal.Program = "/usr/bin/etcdadm"
	list, _, err := machine.Plan(machine.Goal{Action: machine.Init}, cfg, obs)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		obs = machine.Predict(cfg, obs, s.Do)
	}
	if !obs.Renewal.Enabled {
		t.Fatal("no timer is enabled")
	}
	phase := machine.Goal{Action: machine.Init, Phase: "renewal"}
	if again := steps(t, phase, cfg, obs); again != "" {
		t.Errorf("again: %s", again)
	}
	obs.Renewal.Enabled = false
	if again := steps(t, phase, cfg, obs); !strings.Contains(again, renewTimer) {
		t.Errorf("a timer that is not enabled: %q", again)
	}
	reset := steps(t, machine.Goal{Action: machine.Reset, SkipRemoveMember: true}, cfg, obs)
	if !strings.Contains(reset, renewTimer) {
		t.Errorf("a reset: %s", reset)
	}
}
