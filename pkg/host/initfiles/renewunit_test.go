package initfiles_test

import (
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
)

// A unit is known again until somebody changes it.
func TestAMarkedUnitIsKnownUntilItIsChanged(t *testing.T) {
	timer := initfiles.RenewTimer(initfiles.RenewEach(60 * 24 * time.Hour))
	marked := initfiles.Marked(timer)
	if !initfiles.IsMarked(marked) || !strings.HasPrefix(marked, "# ") || !strings.HasSuffix(marked, timer) {
		t.Errorf("it is not known: %s", marked)
	}
	for _, text := range []string{"", "\n", timer, marked + "\n", strings.Replace(marked, "daily", "weekly", 1),
		strings.Replace(marked, "# Written", "# written", 1), strings.TrimSuffix(marked, "\n")} {
		if initfiles.IsMarked(text) {
			t.Errorf("it is taken for ours:\n%s", text)
		}
	}
}

func TestRenewTimerDelaysByAQuarter(t *testing.T) {
	for within, want := range map[time.Duration]string{
		60 * 24 * time.Hour: "OnCalendar=daily\n@RandomizedDelaySec=6h\n",
		48 * time.Hour:      "OnCalendar=daily\n@RandomizedDelaySec=6h\n",
		47 * time.Hour:      "OnCalendar=hourly\n@RandomizedDelaySec=900s\n",
		time.Hour:           "OnCalendar=*:0/10\n@RandomizedDelaySec=150s\n",
		5 * time.Minute:     "OnCalendar=minutely\n@RandomizedDelaySec=15s\n",
	} {
		text := initfiles.RenewTimer(initfiles.RenewEach(within))
		want = strings.Replace(want, "@", "# Machines of a cluster do not do it at the same moment.\n", 1)
		if !strings.Contains(text, want) {
			t.Errorf("what ends within %s: %s", within, text)
		}
	}
}
