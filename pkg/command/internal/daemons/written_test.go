package daemons

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const aUnit = `[Service]
ExecStart=-/usr/local/bin/etcd-manager \
  --cluster-name=main "--backup-store=s3://bucket/a b" \
  --address=10.0.0.7 --grpc-port=3996 --pki-dir=/pki/100%%
`

// As the kubelet of a machine of kops has it.
const aPod = `apiVersion: v1
kind: Pod
spec:
  containers:
  - command: [/bin/sh, -c, "mkfifo /tmp/pipe; (tee -a /var/log/etcd.log < /tmp/pipe & ) ; exec /etcd-manager
      --backup-store=s3://bucket/etcd/events --cluster-name=etcd-events --grpc-port=3997
      --pki-dir=/etc/kubernetes/pki/etcd-manager --insecure=false > /tmp/pipe 2>&1"]
    volumeMounts:
    - {name: pki, mountPath: /etc/kubernetes/pki/etcd-manager}
  volumes:
  - {name: pki, hostPath: {path: /etc/kubernetes/pki/etcd-manager-events}}
`

// A daemon that does not run has its settings where systemd or the kubelet has them.
func TestDaemonsThatAreWrittenDown(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.service": aUnit,
		"b.service": "[Service]\nExecStart=/usr/bin/etcd-manager --backup-store=$STORE\n",
		"c.service": "[Service]\nExecStart=/usr/bin/etcd\nExecStart=\nExecStart=etcd-manager \"--backup-store=/x\n",
		"d.yaml":    aPod,
		"e.yaml":    "spec: [",
		"f.yaml":    strings.ReplaceAll(aPod, "s3://bucket/etcd/events", "file:///store"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	anybodys := filepath.Join(dir, "g.service")
	err := errors.Join(os.WriteFile(anybodys, []byte(aUnit), 0o600), os.Chmod(anybodys, 0o666))
	if err != nil {
		t.Fatal(err)
	}
	p := places{units: []string{dir}, pods: []string{filepath.Join(dir, "*.yaml")}}
	found := p.writtenDown()
	if len(found) != 3 {
		t.Fatalf("%d daemons: %+v", len(found), found)
	}
	const events = "/etc/kubernetes/pki/etcd-manager-events"
	for i, want := range []struct {
		store, cluster, file, node, pki string
		elsewhere                       bool
	}{
		{"s3://bucket/a b", "main", "a.service", "10.0.0.7:3996", "/pki/100%", false},
		{"s3://bucket/etcd/events", "etcd-events", "d.yaml", "127.0.0.1:3997", events, false},
		{"file:///store", "etcd-events", "f.yaml", "127.0.0.1:3997", events, true},
	} {
		d := found[i]
		s, err := d.Settings()
		if err != nil || s.Node("") != want.node || s.PKIDir != want.pki || s.Insecure {
			t.Errorf("%+v, %v, want %+v", s, err, want)
		}
		if d.Store != want.store || d.Cluster != want.cluster || d.Elsewhere != want.elsewhere ||
			d.Where() != "not running, by "+filepath.Join(dir, want.file) {
			t.Errorf("%+v, %s, want %+v", d, d.Where(), want)
		}
	}
}

// The unit of a package has its flags in a file, and a person's changes are drop-ins; one in the
// first directory takes the place of the package's.
func TestUnitsOfPackages(t *testing.T) {
	dir := t.TempDir()
	etc, lib, flags := filepath.Join(dir, "etc"), filepath.Join(dir, "lib"), filepath.Join(dir, "flags")
	packaged := "[Service]\nEnvironmentFile=-" + flags + "\nEnvironmentFile=-" + dir + "/none\n" +
		"ExecStart=/usr/bin/etcd-manager $FLAGS\n"
	for name, text := range map[string]string{
		"flags": "# FLAGS=\"--backup-store=/example \\\n#  --x\"\n" +
			"FLAGS=\"--cluster-name=main --backup-store='/a b' \\\n --grpc-port=9000\"\n",
		"lib/etcd-manager.service":         packaged,
		"lib/masked.service":               packaged,
		"etc/masked.service":               "",
		"lib/unknown.service":              strings.ReplaceAll(packaged, flags, dir+"/none"),
		"lib/other.service":                packaged,
		"etc/other.service.d/a.conf":       "ExecStart=\nExecStart = etcd-manager --backup-store=/c --cluster-name=other\n",
		"lib/open.service":                 packaged,
		"etc/open.service.d/anybodys.conf": "[Service]\n",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(etc, "open.service.d/anybodys.conf"), 0o666); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range (places{units: []string{etc, lib}}).writtenDown() {
		s, err := d.Settings()
		got = append(got, fmt.Sprint(filepath.Base(d.written.file), " ", d.Cluster, " ", d.Store, " ", s.GRPCPort, " ", err))
	}
	want := []string{"etcd-manager.service main /a b 9000 <nil>", "other.service other /c 8000 <nil>"}
	if !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

// From 1.35 on kops has no shell.
func TestPodsOfKopsWithoutAShell(t *testing.T) {
	list := pods(`spec: {containers: [{command: [/go-runner], args: [--log-file=/var/log/etcd.log, --also-stdout,
      /ko-app/etcd-manager, --backup-store=s3://bucket/etcd/main, --cluster-name=etcd, --grpc-port=3996]},
      {command: [/go-runner]}]}`)
	if len(list) != 2 {
		t.Fatalf("there are %d", len(list))
	}
	if d, ok := parseWords(list[0].argv); !ok || d.Store != "s3://bucket/etcd/main" || d.Cluster != "etcd" {
		t.Errorf("it is %+v, %v", d, ok)
	}
	if d, ok := parseWords(list[1].argv); ok {
		t.Errorf("another program is %+v", d)
	}
}
