package daemons

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/auto"
	"github.com/etcdadm/etcdadm/pkg/command/manager"
	"github.com/etcdadm/etcdadm/pkg/testing/testchild"
)

func TestSettings(t *testing.T) {
	for line, want := range map[string]Settings{
		"etcd-manager --backup-store=/b": {
			Address: "127.0.0.1", GRPCPort: 8000, MetricsPort: 8081, PKIDir: "/etc/kubernetes/pki/etcd-manager",
			ClientURLs: []string{"https://__address__:4001"},
		},
		"etcd-manager --backup-store=/b -address 10.0.0.1 --grpc-port=1 --etcd-manager-metrics-port 2 --insecure " +
			"--etcd-insecure=false --etcd-dir=/a --etcd-dir /b --pki-dir=/p --client-urls=https://a:1,https://b:2 --etcd-manager-metrics-address=::": {
			Address: "10.0.0.1", GRPCPort: 1, MetricsPort: 2, MetricsAddress: "::", Insecure: true, PKIDir: "/p",
			EtcdDirs: []string{"/a", "/b"}, ClientURLs: []string{"https://a:1", "https://b:2"},
		},
		"etcd-manager --backup-store=/b --grpc-port=3996 --containerized=true": {
			Address: "127.0.0.1", GRPCPort: 3996, MetricsPort: 4077, MetricsAddress: "127.0.0.1",
			PKIDir: "/etc/kubernetes/pki/etcd-manager", ClientURLs: []string{"https://__address__:4001"},
		},
		"etcdadm auto /s --bind-address=10.0.0.2 --client-port=5 --etcd-manager-metrics-port=0": {
			Address: "10.0.0.2", GRPCPort: 8000, PKIDir: "/etc/etcd-manager/pki", ClientURLs: []string{"https://__address__:5"},
		},
	} {
		if got, err := settingsOf(strings.Fields(line)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", line, got, err, want)
		}
	}
	if _, err := settingsOf([]string{"etcd-manager", "--grpc-port=x"}); err == nil {
		t.Error("a port that is none")
	}
}

// The defaults here are those of the daemons.
func TestDefaultsAreTheDaemons(t *testing.T) {
	manager, auto := manager.New(nil), auto.New(nil)
	for flag, want := range defaults {
		for column, cmd := range []*cobra.Command{manager, auto} {
			got := cmd.Flags().Lookup(flag).DefValue
			if flag == "address" && column == 0 && got == "" {
				got = "127.0.0.1" // as the configuration has it
			}
			if got != want[column] {
				t.Errorf("--%s is %q by default, not %q", flag, got, want[column])
			}
		}
	}
}

func TestOne(t *testing.T) {
	reach := func(d Daemon, s Settings) string { return strings.Join(Reach(d, s), " ") }
	none := func() ([]Daemon, error) { return nil, nil }
	if _, _, ok, err := One(none, reach); ok || err != nil {
		t.Errorf("of none: %v, %v", ok, err)
	}
	two := func() ([]Daemon, error) { return []Daemon{{PID: 1, Cluster: "a"}, {PID: 2}}, nil }
	var usage *cli.UsageError
	if _, _, ok, err := One(two, reach); ok || !errors.As(err, &usage) {
		t.Errorf("of two: %v, %v", ok, err)
	}
	pid := testchild.Named(t, "etcd-manager", "--cluster-name=x", "--backup-store=s3://b/one", "--pki-dir=/nowhere",
		"--grpc-port=9")
	mine := func() ([]Daemon, error) { return []Daemon{{PID: pid, Cluster: "x", Store: "s3://b/one"}}, nil }
	d, s, ok, err := One(mine, reach)
	if !ok || err != nil || s.GRPCPort != 9 || s.PKIDir != "/nowhere" || d.PID != pid {
		t.Errorf("%+v %+v %v %v", d, s, ok, err)
	}
	both := func() ([]Daemon, error) {
		return []Daemon{
			{PID: pid, Cluster: "x", Store: "s3://b/one"},
			{Store: "s3://key:secret@b/two", written: &written{argv: []string{"etcd-manager", "--address=10.0.0.7", "--insecure",
				"--etcd-insecure"}}},
		}, nil
	}
	if _, _, _, err := One(both, reach); !errors.As(err, &usage) || usage.Next !=
		"--cluster-name=x --nodes=127.0.0.1:9 --backup-store=s3://b/one --pki-dir=/nowhere\n"+
			"--cluster-name=etcd --nodes=10.0.0.7:8000 --insecure --etcd-insecure" {
		t.Errorf("of two that run: %q", usage.Next)
	}
	another := func() ([]Daemon, error) { return []Daemon{{PID: pid, Cluster: "x", Store: "s3://b/two"}}, nil }
	if _, _, ok, err := One(another, reach); ok || err == nil {
		t.Errorf("a process that is another one by now: %v, %v", ok, err)
	}
}

func TestWhereADaemonIs(t *testing.T) {
	s := Settings{GRPCPort: 8000, MetricsPort: 1, ClientURLs: []string{"https://__address__:2379", " https://__name__:4"}}
	if got := s.Node("fd00::1"); got != "[fd00::1]:8000" {
		t.Error(got)
	}
	if got := strings.Join(s.Endpoints("fd00::1"), " "); got != "https://[fd00::1]:2379 https://[fd00::1]:4" {
		t.Error(got)
	}
	if got := s.Metrics("10.0.0.1"); got != "10.0.0.1:1" {
		t.Error(got)
	}
	s.Address, s.MetricsAddress, s.EtcdInsecure = "10.0.0.2", "0.0.0.0", true
	if got := s.Metrics(""); got != "127.0.0.1:1" {
		t.Error(got)
	}
	if got := s.Endpoints("")[0]; got != "http://10.0.0.2:2379" {
		t.Error(got)
	}
	if s.MetricsPort = 0; s.Metrics("") != "" {
		t.Error("there is none")
	}
}
