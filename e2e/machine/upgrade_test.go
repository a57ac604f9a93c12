package machine

import (
	"strings"
	"testing"
)

// A version that the member cannot go to is reported as that, and is no success.
func TestUpgradeCheckOfVersionsThatCannotBeReached(t *testing.T) {
	t.Parallel()
	h := newHost(t, "a", v36)
	h.fails(3, []string{"has written", "is unknown", "hint: "}, "upgrade", "check", "--to="+v35)
	h.ok("init")
	if out := h.ok("upgrade", "check", "--to="+v37); !strings.Contains(out, "absent") {
		t.Errorf("%s", out)
	}
	for to, want := range map[string]string{
		"9.9.9":  "what etcd 9.9.9 does not tolerate is unknown",
		"3.8.0":  "what etcd 3.8.0 does not tolerate is unknown",
		"3.5.0":  "etcd 3.5.0 is older than the cluster's " + v36,
		"3.4.25": "etcd 3.4.25 is older than the cluster's " + v36,
	} {
		r := h.fails(3, []string{"version-step", want, "hint: "}, "upgrade", "check", "--to="+to)
		if strings.Contains(r.stdout, "HAZARD") {
			t.Errorf("a table of nothing: %s", r)
		}
	}
	h.kill()
	h.fails(3, []string{"etcd 3.5.0 is older than the cluster's " + v36}, "upgrade", "check", "--to=3.5.0")
}
