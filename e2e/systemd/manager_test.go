//go:build e2e

package systemd

import (
	"strings"
	"testing"
)

// etcd-manager runs as the unit that "etcdadm render" prints: three machines
// with nothing but the programs make a cluster, which bears a killed daemon, a
// stopped one, and a reboot.
func TestManagerAsAService(t *testing.T) {
	t.Parallel()
	machines := Start(t, 3)
	const pki, store = "/etc/kubernetes/pki/etcd-manager", "/var/lib/etcd-store"
	const authorities = "umask 077; mkdir -p " + pki + "; cd " + pki + "; " +
		"for ca in etcd-manager-ca etcd-peers-ca etcd-clients-ca; do " +
		"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=$ca " +
		"-keyout $ca.key -out $ca.crt; done"
	machines[0].Do(authorities)
	var seeds []string
	for _, m := range machines {
		seeds = append(seeds, m.Name+"="+m.IP+":8000")
	}
	for i, m := range machines {
		if i > 0 {
			m.Do("mkdir -p " + pki)
			machines[0].Give(m, pki+"/etcd-manager-ca.crt", pki+"/etcd-manager-ca.key", pki+"/etcd-peers-ca.crt",
				pki+"/etcd-peers-ca.key", pki+"/etcd-clients-ca.crt", pki+"/etcd-clients-ca.key")
		}
		dir := "/opt/etcd-v" + newer
		m.Do("mkdir -p " + store + " " + dir + "; tar xzf /var/cache/etcdadm/etcd/v" + newer + "/*.tar.gz -C " + dir +
			" --strip-components=1")
		m.Do("etcd-manager-ctl --backup-store=file://" + store + " -member-count=3 -etcd-version=" + newer +
			" configure-cluster")
		m.Do("etcdadm render etcd-manager --as=systemd-unit -- --cluster-name=etcd --backup-store=file://" + store +
			" --data-dir=/var/lib/etcd-manager --node-name=" + m.Name + " --address=" + m.IP + " --seeds=" +
			strings.Join(seeds, ",") + " --etcd-manager-metrics-port=8080" +
			" > /etc/systemd/system/etcd-manager.service")
		m.Do("systemd-analyze verify /etc/systemd/system/etcd-manager.service")
		m.Do("systemctl enable --now etcd-manager")
	}
	a := machines[0]
	a.Await(soon, managed("endpoint health --cluster")+" 2>&1 | grep -c 'is healthy' | grep -q '^3$'")
	a.Do(managed("put k v"))

	say(t, "a daemon that is killed")
	a.Do("systemctl kill --kill-whom=main -s KILL etcd-manager")
	a.Await(soon, "systemctl is-active etcd-manager && "+managed("get k --print-value-only")+" | grep -q v")

	say(t, "one that is stopped leaves nothing behind, and ends well")
	machines[1].Do("systemctl stop etcd-manager; ! pgrep -x etcd")
	contains(t, "the service", machines[1].Do("systemctl show etcd-manager -p Result,ExecMainStatus"), "Result=success",
		"ExecMainStatus=0")
	a.Do(managed("put k w"))
	machines[1].Do("systemctl start etcd-manager")

	say(t, "a machine that boots again")
	machines[2].Reboot()
	a.Await(soon, managed("endpoint health --cluster")+" 2>&1 | grep -c 'is healthy' | grep -q '^3$'")
	machines[2].Await(soon, managed("get k --print-value-only")+" | grep -q w")
	machines[2].Await(soon, "curl -sf http://127.0.0.1:8080/readyz")
}

// managed is a line of etcdctl for the member of the daemon on the machine.
func managed(line string) string {
	const certs = "/tmp/client"
	return "test -e " + certs + ".crt || (cd /etc/kubernetes/pki/etcd-manager && " +
		"openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=root -keyout " + certs + ".key -out " +
		certs + ".csr && openssl x509 -req -in " + certs + ".csr -CA etcd-clients-ca.crt -CAkey etcd-clients-ca.key " +
		"-CAcreateserial -days 1 -out " + certs + ".crt) >/dev/null 2>&1; ETCDCTL_API=3 /opt/etcd-v" + newer +
		"/etcdctl --endpoints=https://127.0.0.1:4001 --cacert=/etc/kubernetes/pki/etcd-manager/etcd-clients-ca.crt " +
		"--cert=" + certs + ".crt --key=" + certs + ".key " + line
}
