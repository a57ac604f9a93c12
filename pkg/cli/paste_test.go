package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

// tree is a program with a command that was given args.
func tree(t *testing.T, program string, args ...string) *cobra.Command {
	t.Helper()
	root := &cobra.Command{Use: program}
	run := func(*cobra.Command, []string) {}
	for _, name := range []string{"status", "plan", "config"} {
		root.AddCommand(&cobra.Command{Use: name, Run: run})
	}
	member := &cobra.Command{Use: "member"}
	member.AddCommand(&cobra.Command{Use: "start", Run: run})
	by, machine := &cobra.Command{Use: "alarm", Run: run}, &cobra.Command{Use: "info", Run: run}
	root.AddCommand(member, by, machine)
	if program == "etcd-manager-ctl" {
		root.PersistentFlags().String("backup-store", "", "")
		root.PersistentFlags().String("context", "", "")
		Chooses(root.PersistentFlags(), "store", "backup-store", "context")
	} else {
		for _, c := range root.Commands() {
			fs, group, names := c.PersistentFlags(), "cluster", []string{"backup-store", "context", "nodes"}
			if c == by || c == machine {
				group, names = "etcd", []string{"endpoints"}
			}
			for _, n := range names {
				fs.String(n, "", "")
			}
			fs.Bool("insecure", false, "")
			Chooses(fs, group, append(names, "insecure")...)
		}
	}
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestAdvisedLinesAreAboutTheSameCluster(t *testing.T) {
	const ctl, adm = "etcd-manager-ctl", "etcdadm"
	for _, tc := range []struct {
		program    string
		args       []string
		text, want string
	}{
		{ctl, []string{"status"}, "see: etcd-manager-ctl status", "see: etcd-manager-ctl status"},
		{ctl, []string{"status", "--backup-store=/x"}, "see: etcd-manager-ctl status --watch; more",
			"see: etcd-manager-ctl --backup-store=/x status --watch; more"},
		{ctl, []string{"status", "--backup-store=/x y"}, "etcd-manager-ctl plan", "etcd-manager-ctl --backup-store='/x y' plan"},
		{ctl, []string{"status", "--context=lab"}, "etcd-manager-ctl plan\nor etcdadm status",
			"etcd-manager-ctl --context=lab plan\nor etcdadm status --context=lab"},
		{ctl, []string{"status", "--backup-store=/x"}, "etcd-manager-ctl config set-context lab",
			"etcd-manager-ctl config set-context lab"},
		{ctl, []string{"status", "--backup-store=/x"}, "the etcd-manager-ctl of the release",
			"the etcd-manager-ctl of the release"},
		{ctl, []string{"status", "--backup-store=/x"}, "etcd-manager-ctl plan --help", "etcd-manager-ctl plan --help"},
		{ctl, []string{"status", "--backup-store=/x"}, "etcd-manager-ctl plan --backup-store=/y",
			"etcd-manager-ctl plan --backup-store=/y"},
		{ctl, []string{"status", "--backup-store=/x"}, "run etcd-manager-ctl --backup-store=STORE resume.",
			"run etcd-manager-ctl --backup-store=/x resume."},
		{ctl, []string{"status", "--backup-store=s3://me:secret@x/y"}, "etcd-manager-ctl plan", "etcd-manager-ctl plan"},
		{adm, []string{"member", "start", "--nodes=a:1,b:2", "--insecure"}, "observe again: etcdadm plan; or etcdadm info",
			"observe again: etcdadm plan --insecure --nodes=a:1,b:2; or etcdadm info"},
		{adm, []string{"plan", "--context=lab", "--nodes=a:1"}, "etcdadm member start --node=a",
			"etcdadm member start --context=lab --nodes=a:1 --node=a"},
		// One that is given beside a context takes precedence over what that says.
		{adm, []string{"plan", "--context=lab", "--nodes=b:1,c:1", "--insecure"}, "etcdadm status; etcd-manager-ctl status",
			"etcdadm status --context=lab --insecure --nodes=b:1,c:1; etcd-manager-ctl --context=lab status"},
		{adm, []string{"plan", "--backup-store=/x"}, "etcd-manager-ctl status", "etcd-manager-ctl --backup-store=/x status"},
		{adm, []string{"alarm", "--endpoints=https://a:1", "--insecure"}, "etcdadm info, etcdadm status",
			"etcdadm info --endpoints=https://a:1 --insecure, etcdadm status"},
	} {
		if got := Pasteable(tree(t, tc.program, tc.args...), tc.text); got != tc.want {
			t.Errorf("%s %q: %q\nis   %q\nwant %q", tc.program, tc.args, tc.text, got, tc.want)
		}
	}
}

// A flag from the environment or a context is not in a line that is advised, which finds it there
// again; where the store is known, the placeholder for it is replaced.
func TestAdvisedLinesHaveNoFlagOfTheEnvironment(t *testing.T) {
	for _, tc := range []struct {
		args       []string
		text, want string
	}{
		{[]string{"plan"}, "etcdadm status; etcd-manager-ctl status", "etcdadm status; etcd-manager-ctl status"},
		{[]string{"plan"}, "etcd-manager-ctl --backup-store=STORE resume", "etcd-manager-ctl --backup-store=/env resume"},
		{[]string{"plan", "--nodes=b:1"}, "etcdadm status", "etcdadm status --nodes=b:1"},
		{[]string{"plan", "--context=prod", "--nodes=b:1", "--insecure"}, "etcdadm status; etcd-manager-ctl status",
			"etcdadm status --context=prod --insecure --nodes=b:1; etcd-manager-ctl --context=prod status"},
	} {
		cmd := tree(t, "etcdadm", tc.args...)
		for name, value := range map[string]string{"nodes": "a:1", "backup-store": "/env"} {
			if cmd.Flags().Changed(name) {
				continue
			}
			if err := Fill(cmd.Flags(), name, value); err != nil {
				t.Fatal(err)
			}
		}
		if err := Fill(cmd.Flags(), "no-flag", "x"); err == nil {
			t.Error("a flag that does not exist is filled")
		}
		if got := Pasteable(cmd, tc.text); got != tc.want {
			t.Errorf("%q: %q\nis   %q\nwant %q", tc.args, tc.text, got, tc.want)
		}
	}
}
