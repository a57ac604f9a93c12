package daemons

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/testing/testchild"
)

// Processes of this machine are found by their names, with what their flags say.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	want := []Daemon{
		{PID: testchild.Named(t, "etcd-manager", "--cluster-name=etcd", "--backup-store=file://"+dir), Store: "file://" + dir,
			Cluster: "etcd"},
		{PID: testchild.Named(t, "etcd-manager", "-cluster-name", "events", "-backup-store", "s3://b/x", "--insecure"),
			Store: "s3://b/x", Cluster: "events"},
		{PID: testchild.Named(t, "etcd-manager", "--backup-store=relative"), Store: "relative", Elsewhere: true},
	}
	others := []int{testchild.Named(t, "etcd-manager", "--help"), testchild.Named(t, "other", "--backup-store=s3://b/y")}
	all, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range want {
		if !slices.Contains(all, d) {
			t.Errorf("no %+v in %+v", d, all)
		}
	}
	for _, d := range all {
		if slices.Contains(others, d.PID) {
			t.Errorf("%+v is no daemon with a store", d)
		}
	}
}

// A pod's process may be root's as well, and have any command line.
func TestProcessesOfOtherNetworksAreNoDaemons(t *testing.T) {
	proc := t.TempDir()
	for name, network := range map[string]string{"self": "net:[1]", "10": "net:[1]", "11": "net:[2]"} {
		ns := filepath.Join(proc, name, "ns")
		err := errors.Join(os.MkdirAll(ns, 0o755), os.Symlink(network, filepath.Join(ns, "net")),
			os.WriteFile(filepath.Join(proc, name, "cmdline"), []byte("etcd-manager\x00--backup-store=s3://b/x\x00"), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	found, err := find(proc)
	if err != nil || len(found) != 1 || found[0].PID != 10 {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestParse(t *testing.T) {
	for line, want := range map[string]Daemon{
		"/etcd-manager --backup-store=/a --backup-store=/b":      {Store: "/b"},
		"/usr/local/bin/etcdadm auto file:///s --cluster-name=c": {Store: "file:///s", Cluster: "c"},
		"etcdadm auto unit file:///s":                            {},
		"etcdadm auto --help /s":                                 {},
		"etcdadm plan --backup-store=/a":                         {},
		"etcd-manager --backup-store":                            {},
		"etcd-manager-ctl --backup-store=/a status":              {},
		"": {},
	} {
		if got, ok := parse(strings.Split(line, " ")); got != want && ok || ok != (want.Store != "") {
			t.Errorf("%q: %+v %t, want %+v", line, got, ok, want)
		}
	}
}
