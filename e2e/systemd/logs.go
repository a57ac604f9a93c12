//go:build e2e

package systemd

import (
	"context"
	"testing"
	"time"
)

// evidence is what a failure is looked into with.
const evidence = "\ntail -n 40 " + cloudErrors + `
systemctl --no-pager --full --lines=0 status etcd.service
systemctl --no-pager --failed --plain --no-legend
ls -lR /etc/etcd
ls -la /var/lib /var/lib/etcd /var/lib/etcd/member
cat /etc/systemd/system/etcd.service
sed 's/^#.*//; /^$/d' /etc/etcd/etcd.env
echo "--- journal of etcd.service"
journalctl --no-pager --output=cat --unit=etcd.service | grep -v 'level":"info' | cut -c -400 | tail -n 40
echo "--- journal of the machine"
journalctl --no-pager --output=short-precise --lines=200 | grep -v ' etcd\[' | tail -n 20
`

// showLogs shows what there is to know of the machines of a failed test.
func showLogs(t testing.TB, machines []*Machine) {
	if !t.Failed() {
		return
	}
	for _, m := range machines {
		ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		r, err := run(ctx, nil, "exec", m.id, "sh", "-c", "exec 2>&1\n"+evidence)
		stop()
		t.Logf("==== %s: %v\n%s%s", m.Name, err, r.Stdout, r.Stderr)
	}
}
