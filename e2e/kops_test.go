//go:build e2e

package e2e

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// kopsArgs is the command line that kops writes, but for what says where the
// volume, the CAs and etcd's binaries are.
func kopsArgs(n *harness.Node) []string {
	return append(harness.KopsMain.Args(n.Store, "--data-dir="+n.Dir, "--node-name="+n.Name, "--address="+n.Address,
		"--pki-dir="+n.InstallPKI(), "--etcd-dir="+n.EtcdDirs), n.Flags...)
}

// kopsStart starts the daemon in a container that is new.
func kopsStart(nodes ...*harness.Node) {
	for _, n := range nodes {
		n.NewHosts()
		n.Run(kopsArgs(n)...)
	}
}

// kopsCluster returns three machines, none of which runs.
func kopsCluster(t *testing.T) (*harness.Cluster, []*harness.Node) {
	t.Helper()
	needsNamespaces(t)
	o := options(t)
	o.RSA, o.Net, o.Unwatched = true, harness.NewNet(t), true
	c := harness.New(t.Context(), t, o)
	var nodes []*harness.Node
	for _, m := range []string{"a", "b", "c"} {
		nodes = append(nodes, harness.KopsMain.Node(c, "etcd-"+m))
	}
	return c, nodes
}

// With the command line of kops, daemons bootstrap a cluster whose members find each
// other by names that nothing but their own hosts files resolves, and each comes
// back on a machine with another hosts file, alone or with the others.
func TestKopsNames(t *testing.T) {
	t.Parallel()
	c, nodes := kopsCluster(t)
	c.SetSpec(3, v36)
	kopsStart(nodes...)
	c.WaitNames(harness.Soon, "etcd-a", "etcd-b", "etcd-c")
	for _, m := range members(t, c) {
		host := "https://" + m.Name + "." + harness.KopsDomain
		if !slices.Equal(m.PeerURLs, []string{host + ":2380"}) || !slices.Equal(m.ClientURLs, []string{host + ":4001"}) {
			t.Errorf("etcd has %v and %v of %s", m.PeerURLs, m.ClientURLs, m.Name)
		}
	}
	for _, n := range nodes {
		kopsKeys(t, n)
	}

	w := c.Write()
	w.WaitMore(harness.Soon, 5)
	for _, n := range nodes {
		n.Kill()
		path := n.NewHosts()
		n.Run(kopsArgs(n)...)
		c.WaitNames(harness.Soon, "etcd-a", "etcd-b", "etcd-c")
		hostsHave(t, c, path, nodes)
	}
	w.WaitMore(harness.Soon, 5)

	// All at once, without the store: what the disks remember is enough.
	for _, n := range nodes {
		n.Kill()
	}
	if err := os.Rename(c.Store, c.Store+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.Store, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	kopsStart(nodes...)
	c.WaitNames(harness.Soon, "etcd-a", "etcd-b", "etcd-c")
	w.WaitMore(harness.Soon, 5)
	if err := os.Remove(c.Store); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(c.Store+".away", c.Store); err != nil {
		t.Fatal(err)
	}
}

// All members have one client URL, which leads nowhere: that of cilium's etcd, before
// anybody has made its record.
func TestKopsClientURLOfAll(t *testing.T) {
	t.Parallel()
	c, nodes := kopsCluster(t)
	for _, n := range nodes {
		n.Flags = []string{"--client-urls=https://api." + harness.KopsDomain + ":4001"}
	}
	c.SetSpec(3, v36)
	kopsStart(nodes...)
	c.WaitNames(harness.Soon, "etcd-a", "etcd-b", "etcd-c")
	eventually(t, c, "a backup", func() error {
		out, err := c.Ctl("list-backups")
		if err == nil && !strings.Contains(out, "Z-") {
			err = fmt.Errorf("the backups are %q", out)
		}
		return err
	})
	// Shrinking changes the member list and removes data, through whoever coordinates.
	c.SetSpec(1, v36)
	eventually(t, c, "one member", func() error {
		members, err := c.Members(t.Context())
		if err == nil && len(members) != 1 {
			err = fmt.Errorf("%d members", len(members))
		}
		return err
	})
}

// kopsKeys holds the certificates to what the existing etcd-manager reads, and to the
// names by which the member is called.
func kopsKeys(t *testing.T, n *harness.Node) {
	t.Helper()
	pairs, err := filepath.Glob(filepath.Join(n.Dir, "pki/*/*/*.key"))
	if err != nil || len(pairs) != 2 {
		t.Fatalf("the keys of %s are %v, %v", n.Name, pairs, err)
	}
	for _, role := range []string{"server", "client"} {
		pairs = append(pairs, filepath.Join(n.Dir+"-pki", "etcd-manager-"+role+"-"+n.Name+".key"))
	}
	for _, key := range pairs {
		text, err := os.ReadFile(key)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "-----BEGIN RSA PRIVATE KEY-----") {
			t.Errorf("%s is no RSA key", key)
		}
		pair, err := tls.LoadX509KeyPair(strings.TrimSuffix(key, ".key")+".crt", key)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(key, "etcd-manager-") {
			continue
		}
		names := []string{n.Name, n.Host, "127.0.0.1", "::1"}
		if filepath.Base(key) == "me.key" {
			names = append(names, n.Address)
		}
		for _, name := range names {
			if err := pair.Leaf.VerifyHostname(name); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
}

// Nobody else is needed for a hosts file: a daemon that is alone, with a disk that
// remembers nothing and which learns from a seed of others that do not answer, writes theirs.
func TestKopsHostsAlone(t *testing.T) {
	t.Parallel()
	c, nodes := kopsCluster(t)
	n := nodes[0]
	path := n.NewHosts()
	n.Flags = []string{"--seeds=etcd-b=" + nodes[1].Address + ":3996"}
	n.Run(kopsArgs(n)...)
	hostsHave(t, c, path, nodes[:2], "127.0.0.1\tlocalhost",
		"# Begin host entries managed by etcd-manager[etcd] - do not edit", "# End host entries managed by etcd-manager[etcd]")
	n.NewHosts() // somebody else writes the file
	hostsHave(t, c, path, nodes[:2], "127.0.0.1\tlocalhost")
}

// hostsHave waits until a hosts file has lines, and those of nodes.
func hostsHave(t *testing.T, c *harness.Cluster, path string, nodes []*harness.Node, lines ...string) {
	t.Helper()
	for _, n := range nodes {
		lines = append(lines, n.Address+"\t"+n.Host)
	}
	eventually(t, c, "the hosts file", func() error {
		b, err := os.ReadFile(path)
		for _, line := range lines {
			if !strings.Contains(string(b), line+"\n") {
				err = fmt.Errorf("it lacks %q:\n%s", line, b)
			}
		}
		return err
	})
}
