//go:build e2e

package e2e

import (
	"bytes"
	"encoding/pem"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// kops rotates its three CAs by what it writes into their files, and by replacing all machines
// for each step, one by one: a second certificate that all trust; its key, so that it issues;
// and without the first one. Members and daemons with certificates of either CA work together.
func TestKopsRotatesItsCAs(t *testing.T) {
	t.Parallel()
	o := options(t, calm...)
	o.RSA = true
	c := harness.New(t.Context(), t, o)
	names := []string{"a", "b", "c"}
	before, after := c.PKI.CAs, map[string]harness.CA{}
	for name := range before {
		ca, err := harness.NewCA(name+"-next", true, time.Now().Add(30*24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		after[name] = ca
	}
	c.PKI.Next = []harness.CA{after[harness.ClientsCA]}
	dirs := map[string]string{}
	for _, name := range names {
		dirs[name] = t.TempDir()
		if err := c.PKI.Install(dirs[name]); err != nil {
			t.Fatal(err)
		}
		c.Node(name).PKIDir = dirs[name]
	}
	c.Bootstrap(3, v36, names...)
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	for _, step := range []struct {
		issues map[string]harness.CA
		trusts []map[string]harness.CA
	}{
		{before, []map[string]harness.CA{before, after}},
		{after, []map[string]harness.CA{after, before}},
		{after, []map[string]harness.CA{after}},
	} {
		for _, name := range names {
			n := c.Node(name)
			n.Stop()
			for _, ca := range slices.Sorted(maps.Keys(before)) {
				trusts := step.trusts
				if ca == harness.ClientsCA && len(trusts) == 1 {
					trusts = append(trusts, before) // the test's own certificate is not issued again
				}
				writeBundle(t, dirs[name], ca, step.issues[ca], trusts)
			}
			n.Start()
			c.WaitNames(harness.Soon, names...)
			w.WaitMore(harness.Soon, 10)
		}
	}
	for _, n := range c.Nodes() {
		for file, ca := range map[string]string{
			"pki/*/peers/me.crt": harness.PeersCA, "pki/*/clients/server.crt": harness.ClientsCA,
		} {
			paths, err := filepath.Glob(filepath.Join(n.Dir, file))
			if err != nil || len(paths) != 1 {
				t.Fatalf("%s: %v, %v", n.Name, paths, err)
			}
			if got := certOf(t, paths[0]).Issuer.CommonName; got != ca+"-next" {
				t.Errorf("%s was issued by %s", paths[0], got)
			}
		}
	}
	c.SetSpec(1, v36) // they still agree
	c.WaitVoters(harness.Soon, 1)
}

// writeBundle writes a CA as kops does: all certificates that are trusted, and one key.
func writeBundle(t *testing.T, dir, name string, issues harness.CA, trusts []map[string]harness.CA) {
	t.Helper()
	if err := issues.Write(dir, name); err != nil {
		t.Fatal(err)
	}
	var bundle bytes.Buffer
	for _, cas := range trusts {
		if err := pem.Encode(&bundle, &pem.Block{Type: "CERTIFICATE", Bytes: cas[name].Cert.Raw}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), bundle.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
