package machines

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
)

// issued makes the certificates of the machine as of a time.
func issued(t *testing.T, s certs.MachineSpec, at time.Time) {
	t.Helper()
	if err := certs.CreateMachineCA(s, at); err != nil {
		t.Fatal(err)
	}
	if _, err := certs.IssueMachine(s, at); err != nil {
		t.Fatal(err)
	}
}

// The status reports certificates that have expired, and those that soon will, from
// good ones: of the machine and of the authority, with the authority's key or
// without.
func TestStatusReportsExpiredCertificates(t *testing.T) {
	const day = 24 * time.Hour
	withoutKey := func(t *testing.T, s certs.MachineSpec) {
		t.Helper()
		if err := os.Remove(filepath.Join(s.Dir, "ca.key")); err != nil {
			t.Fatal(err)
		}
	}
	again := func(lifetime, age time.Duration) func(*testing.T, certs.MachineSpec) {
		return func(t *testing.T, s certs.MachineSpec) {
			t.Helper()
			if err := os.Remove(filepath.Join(s.Dir, "peer.crt")); err != nil {
				t.Fatal(err)
			}
			s.Lifetime = lifetime
			if _, err := certs.IssueMachine(s, time.Now().Add(-age)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		life, caLife, age time.Duration
		change            func(*testing.T, certs.MachineSpec)
		want              string
	}{
		"good": {life: 300 * day, caLife: 3000 * day, want: `ok +the authority is valid until 20\d\d-\d\d-\d\d\n`},
		"expired": {life: day, caLife: 3000 * day, age: 2 * day,
			want: `expired +server: it expired on 20.* \(etcdadm certs renew all\)\n`},
		"soon": {life: 30 * day, caLife: 3000 * day, age: 25 * day,
			want: `expires soon +server: it expires on 20.* \(etcdadm certs renew all\)\n`},
		"one soon, another expired": {life: 30 * day, caLife: 3000 * day, age: 25 * day,
			change: again(day, 3*day), want: `expired +peer: it expired on 20.*`},
		"expired, of an external authority": {life: day, caLife: 3000 * day, age: 2 * day, change: withoutKey,
			want: `expired +server: it expired on 20.* \(etcdadm certs generate-csr\)\n`},
		"soon, of an external authority": {life: 30 * day, caLife: 3000 * day, age: 25 * day, change: withoutKey,
			want: `expires soon +server: it expires on 20.* \(etcdadm certs generate-csr\)\n`},
		"an expired authority": {life: day, caLife: 2 * day, age: 3 * day,
			want: `expired +ca: .*expired.*`},
		"an expired authority without key": {life: day, caLife: 2 * day, age: 3 * day, change: withoutKey,
			want: `expired +ca: .*expired.*`},
		"an authority that soon expires": {life: 30 * day, caLife: 40 * day, age: 15 * day,
			want: `expires soon +ca: it expires on 20\d\d-\d\d-\d\d.*\(etcdadm certs rotate-ca prepare\)\n`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := below(t)
			s := certs.MachineSpec{Dir: dir + "/pki", Name: "b", Address: "127.0.0.1", Lifetime: tc.life, CALifetime: tc.caLife}
			issued(t, s, time.Now().Add(-tc.age))
			// It has a member.
			if err := os.MkdirAll(dir+"/data/member", 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/data/member/file", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if tc.change != nil {
				tc.change(t, s)
			}
			out, errs, code := call(t, "status")
			if code != 1 || !regexp.MustCompile(`(?m)^certificates +`+tc.want).MatchString(out) {
				t.Errorf("code %d, no line %s in\n%s%s", code, tc.want, out, errs)
			}
		})
	}
}
