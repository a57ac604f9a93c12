package machine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

const (
	renewService = "/etc/systemd/system/etcdadm-certs-renew.service"
	renewTimer   = "/etc/systemd/system/etcdadm-certs-renew.timer"
)

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
				if !initfiles.IsMarked(f.Content) {
					t.Errorf("%s would not be known again", f.Path)
				}
			}
		}
	}
	return steps(t, goal, cfg, obs), content.String()
}

// A member that is made on a machine with systemd has a timer that renews its certificates,
// unless nothing on the machine can, or a person has another one, or none.
func TestInitAndJoinHaveATimerRenew(t *testing.T) {
	wrote := "renewal: write " + renewService + ", " + renewTimer + "\n"
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
		{"each day", machine.Goal{Action: machine.Init}, nil, "OnCalendar=daily\n"},
		{"a short life elsewhere", machine.Goal{Action: machine.Init},
			func(c *machine.Config, _ *machine.Observation) {
				c.Certificates.Lifetime, c.Paths.Certificates = machine.Duration(72*time.Hour), "/srv/my pki"
			}, `certs renew all --within=24h0m0s "--certs-dir=/srv/my pki" --cert-lifetime=72h0m0s $ETCDADM_RENEW_FLAGS`},
		{"a short life is seen more often", machine.Goal{Action: machine.Init},
			func(c *machine.Config, _ *machine.Observation) {
				c.Certificates.Lifetime = machine.Duration(72 * time.Hour)
			},
			"OnCalendar=hourly\n"},
		{"skipped", machine.Goal{Action: machine.Init, Skip: []string{"renewal"}}, nil, ""},
		{"the authority's key is elsewhere", machine.Goal{Action: machine.Join},
			func(_ *machine.Config, o *machine.Observation) {
				o.PKI = machine.PKI{CA: machine.CAExternal}
			}, ""},
		{"a static pod", machine.Goal{Action: machine.Init},
			func(c *machine.Config, _ *machine.Observation) { c.Service.InitSystem = machine.Kubelet }, ""},
		{"a person's timer", machine.Goal{Action: machine.Init},
			func(_ *machine.Config, o *machine.Observation) { o.Renewal.Enabled = true }, ""},
		{"a person's unit", machine.Goal{Action: machine.Init},
			func(_ *machine.Config, o *machine.Observation) { o.Renewal.Theirs = []string{renewService} }, ""},
		{"a program that others can change", machine.Goal{Action: machine.Init},
			func(_ *machine.Config, o *machine.Observation) { o.Renewal.Program = "" }, ""},
		{"systemd does not say how the timer is", machine.Goal{Action: machine.Init},
			func(_ *machine.Config, o *machine.Observation) { o.Renewal.Problem = "no state" }, ""},
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

// The member comes first: that it serves, and votes, does not wait for a timer.
func TestTheTimerComesLast(t *testing.T) {
	for _, goal := range []machine.Goal{{Action: machine.Init}, {Action: machine.Join}} {
		cfg, obs := desired(), withCA()
		obs.Renewal.Program = "/usr/bin/etcdadm"
		if goal.Action == machine.Join {
			obs.Remote = answering(healthy("a", 0xa, "10.0.0.1"))
		}
		list, why, err := machine.Plan(goal, cfg, obs)
		if err != nil || why != nil {
			t.Fatal(err, why)
		}
		if i := slices.IndexFunc(list, func(s machine.Step) bool { return s.Phase == "renewal" }); i != len(list)-1 {
			t.Errorf("%s: it is step %d of %d", goal.Action, i+1, len(list))
		}
	}
}

// A directory that a unit cannot have is refused before anything is done.
func TestADirectoryThatNoUnitCanHaveIsRefusedFirst(t *testing.T) {
	for _, dir := range []string{"/srv/the 'pki'", "/srv/$pki", `/srv/"pki"`, "/srv/`pki`", `/srv/p\ki`} {
		cfg, obs := desired(), withCA()
		cfg.Paths.Certificates, obs.Renewal.Program = dir, "/usr/bin/etcdadm"
		step, why := machine.Next(machine.Goal{Action: machine.Init}, cfg, obs)
		if step != nil || why == nil || why.Reason != machine.SettingsInvalid {
			t.Errorf("%s: the first step is %v, held by %v", dir, step, why)
		}
	}
}

// What is left alone by one run of the timer is seen by another one before it ends, with the
// delay and systemd's minute of inaccuracy.
func TestNoCertificateEndsBetweenTwoRuns(t *testing.T) {
	periods := map[string]time.Duration{
		"daily": 24 * time.Hour, "hourly": time.Hour, "*:0/10": 10 * time.Minute, "minutely": time.Minute,
	}
	for _, life := range []time.Duration{
		20 * time.Minute, time.Hour, 6*time.Hour - time.Second, 6 * time.Hour, 12 * time.Hour, 72 * time.Hour, 90 * time.Hour,
		144*time.Hour - time.Second, 144 * time.Hour, 7 * 24 * time.Hour, 365 * 24 * time.Hour,
	} {
		cfg := desired(func(c *machine.Config) { c.Certificates.Lifetime = machine.Duration(life) })
		s, within := machine.RenewSchedule(cfg), min(life/3, 60*24*time.Hour)
		period, known := periods[s.Calendar]
		if gap := period + s.Delay() + time.Minute; !known || gap >= within || s.Delay() > within/4 {
			t.Errorf("certificates of %s are renewed %s before their end, %s, with a delay of up to %s", life, within, s.Calendar,
				s.Delay())
		}
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
