package manifest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	kyaml "sigs.k8s.io/yaml"
)

func TestWrongInputForEtcdBackup(t *testing.T) {
	agent := []string{"--", "--cluster-name=main", "--backup-store=s3://b/p"}
	once := append(slices.Clone(agent), "--once")
	for _, tt := range []struct {
		own, args []string
		want      string
	}{
		{nil, agent, "--image is missing"},
		{[]string{"--image=two words"}, agent, "is not one"},
		{[]string{"--image=i", "--env=X"}, agent, "KEY=VALUE"},
		{[]string{"--image=i", "--name=Main"}, agent, "lower-case"},
		{[]string{"--image=i"}, []string{"--", "--backup-store=/b"}, "--cluster-name is required"},
		{[]string{"--image=i"}, []string{"--", "--cluster-name=main"}, "--backup-store is required"},
		{[]string{"--image=i"}, once, "--once"},
		{[]string{"--as=systemd-unit"}, once, "--once"},
		{[]string{"--as=cron-job", "--image=i"}, agent, "add --once"},
		{[]string{"--as=cron-job", "--image=i", "--schedule=often"}, once, "--schedule"},
		{[]string{"--as=cron-job", "--image=i", "--schedule="}, once, "--schedule"},
		{[]string{"--as=cron-job", "--image=i", "--secret=a_b"}, once, "lower-case"},
		{[]string{"--as=deployment"}, agent, "is not one of static-pod, cron-job, systemd-unit"},
		{[]string{"--image=i", "--secret=s"}, agent, "--secret has no effect with --as=static-pod"},
		{[]string{"--as=systemd-unit", "--env=A=b"}, agent, "--env has no effect"},
		{[]string{"--as=systemd-unit", "--program=etcd-backup"}, agent, "not an absolute path"},
	} {
		text, err := render(slices.Concat([]string{"etcd-backup"}, tt.own, tt.args)...)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q %q: %v, want %q\n%s", tt.own, tt.args, err, tt.want, text)
		}
	}
}

// Of each kind, flags of etcd-backup are refused that it would refuse itself, and
// those that would be of another meaning there.
func TestWrongFlagsOfEtcdBackup(t *testing.T) {
	for _, as := range backupKinds {
		for flags, want := range map[string]string{
			"--no-such-flag":               "no-such-flag",
			"stray":                        `not "stray"`,
			"--interval=often":             "--interval",
			"--cron=often":                 "--cron",
			"--prefer=nobody":              "not one of follower, leader, local",
			"--client-url=m:1":             "--client-url",
			"--timeout=0":                  "--timeout",
			"--daily-retention=x":          "--daily-retention",
			"--leader-only --prefer=local": "--leader-only",
			"--client-url=https://h:1 --client-ca-file=/c/a": "TLS needs all three files",
			"--sign-key=here.pem":                            "not an absolute path",
			"--encrypt-to=age2":                              "--encrypt-to",
			"--backup-trusted-signers=/k/a":                  "--sign-key",
			"--backup-store=backups":                         "neither an absolute path",
			"--backup-store=s3:/bucket":                      "neither an absolute path",
			"--listen-metrics=2391":                          "--listen-metrics",
			"--listen-metrics=:http":                         "--listen-metrics",
		} {
			args := []string{"etcd-backup", "--as=" + as}
			if as != "systemd-unit" {
				args = append(args, "--image=i")
			}
			args = append(args, "--", "--cluster-name=main", "--backup-store=s3://b/p")
			if as == cronJob {
				args = append(args, "--once")
			}
			text, err := render(append(args, strings.Fields(flags)...)...)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %s: %v, want %q\n%s", as, flags, err, want, text)
			}
		}
	}
}

// A podSpec is what the tests ask for. The files of manifests are read with the
// types of the Kubernetes API, strictly, in e2e/etcdbackup.
type podSpec struct {
	Containers []struct {
		VolumeMounts []struct {
			Name, MountPath string
			ReadOnly        bool
		}
		SecurityContext struct{ RunAsUser *int }
		ReadinessProbe  *struct {
			HTTPGet struct {
				Host string
				Port int
			}
		}
	}
	Volumes []struct {
		Name     string
		HostPath struct{ Path, Type string }
	}
}

func backupPod(t *testing.T, flags ...string) podSpec {
	t.Helper()
	text, err := render(append([]string{"etcd-backup", "--image=i", "--", "--cluster-name=main"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	var pod struct{ Spec podSpec }
	if err := kyaml.Unmarshal([]byte(text), &pod); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return pod.Spec
}

// The pod has the directories of the files that the flags name, and no others.
func TestWhatEtcdBackupSees(t *testing.T) {
	const recipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
	spec := backupPod(t, "--backup-store=file:///mnt/b/", "--sign-key=/etc/keys/sign.pem",
		"--backup-trusted-signers=/etc/keys/a.pub", "--encrypt-to="+recipient+",/etc/age/recipients.txt",
		"--encrypt-to="+recipient, "--client-url=https://127.0.0.1:2379", "--client-ca-file=/pki/ca.crt",
		"--client-cert-file=/pki/c.crt", "--client-key-file=/mnt/b/c.key")
	var got []string
	for i, m := range spec.Containers[0].VolumeMounts {
		v := spec.Volumes[i]
		if m.Name != v.Name || v.HostPath.Path != m.MountPath ||
			v.HostPath.Type != "Directory" || m.ReadOnly != (m.MountPath != "/mnt/b") {
			t.Errorf("%+v %+v", m, v)
		}
		got = append(got, m.MountPath)
	}
	if want := []string{"/etc/age", "/etc/keys", "/pki", "/mnt/b"}; !slices.Equal(got, want) {
		t.Errorf("mounts are %q, want %q", got, want)
	}
	spec = backupPod(t, "--backup-store=/b", "--prefer=local")
	if kind := spec.Volumes[0].HostPath.Type; kind != "DirectoryOrCreate" {
		t.Errorf("a store of the machine's own is %s", kind)
	}
	// It need not be root for what is not there.
	spec = backupPod(t, "--backup-store=s3://b/p")
	if c := spec.Containers[0]; len(spec.Volumes) != 0 || c.SecurityContext.RunAsUser != nil || c.ReadinessProbe != nil {
		t.Errorf("%+v", spec)
	}
	for _, dir := range []string{"/", "/etc", "/etc/ssl/certs", "/tmp"} {
		if text, err := render("etcd-backup", "--image=i", "--", "--cluster-name=main", "--backup-store="+dir); err == nil ||
			!strings.Contains(err.Error(), "would hide that of the image") {
			t.Errorf("%s: %v\n%s", dir, err, text)
		}
	}
}

func TestWhereEtcdBackupIsProbed(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:2391": "127.0.0.1:2391", ":2391": "127.0.0.1:2391", "[::]:2391": "127.0.0.1:2391",
		"10.0.0.1:1": "10.0.0.1:1", "127.0.0.1:0": "",
	} {
		got := ""
		if p := backupPod(t, "--backup-store=s3://b/p", "--listen-metrics="+address).Containers[0].ReadinessProbe; p != nil {
			got = fmt.Sprintf("%s:%d", p.HTTPGet.Host, p.HTTPGet.Port)
		}
		if got != want {
			t.Errorf("%s is probed at %q, want %q", address, got, want)
		}
	}
}

// The unit can write to the store alone, and sees what it is to read.
func TestTheUnitOfEtcdBackup(t *testing.T) {
	for flags, want := range map[string]string{
		"--backup-store=/var/lib/b --prefer=local": "StateDirectory=b\n ProtectHome=yes\n RequiresMountsFor=/var/lib/b\n",
		// One that is not mounted must not become an empty store.
		"--backup-store=/var/lib/b": "!StateDirectory= ReadWritePaths=/var/lib/b\n ProtectHome=yes\n",
		"--backup-store=/root/b":    "!ProtectHome= ReadWritePaths=/root/b\n",
		"--backup-store=s3://b/p --sign-key=/root/k": "!ProtectHome= !ReadWritePaths= !RequiresMountsFor= " +
			"EnvironmentFile=-/etc/etcd-backup/etcd-backup.env\n",
		"--backup-store=s3://b/100%$x": "--backup-store=s3://b/100%%$$x\n",
	} {
		text, err := render(append([]string{"etcd-backup", "--as=systemd-unit", "--", "--cluster-name=main"},
			strings.Fields(flags)...)...)
		if err != nil {
			t.Errorf("%s: %v", flags, err)
		}
		for _, line := range strings.Split(want, " ") {
			line, not := strings.CutPrefix(line, "!")
			if strings.Contains(text, line) == not {
				t.Errorf("%s: %q is there: %t\n%s", flags, line, not, text)
			}
		}
	}
}
