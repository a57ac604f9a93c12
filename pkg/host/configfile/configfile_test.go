package configfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

const head = "apiVersion: etcdadm.dev/v1\nkind: Member\n"

const whole = head + `name: a
version: 3.6.16
listen:
  address: fd00::1
  clientPort: 4001
  clientURLs: ["https://[fd00::1]:4001", 'https://[::1]:4001']
paths:
  data: /data
certificates:
  serverSANs:
  - etcd.example.com
  - 10.0.0.1
  lifetime: 2160h
binaries:
  skipChecksum: true
service:
  initSystem: kubelet
  priorities: []
etcd:
  quotaBytes: 8Gi
  flags:
    snapshot-count: 5000
    pre-vote: true
    log-level: "debug"
  environment:
    GOGC: 50
snapshot:
# file: /x
timeouts: {start: 1m30s}
`

func TestWhole(t *testing.T) {
	f, err := Parse("member.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want := machine.Config{
		Name: "a", Version: etcdversion.Must("3.6.16"),
		Listen: machine.Listen{
			Address: "fd00::1", ClientPort: 4001, ClientURLs: []string{"https://[fd00::1]:4001", "https://[::1]:4001"},
		},
		Paths: machine.Paths{Data: "/data"},
		Certificates: machine.Certificates{
			ServerSANs: []string{"etcd.example.com", "10.0.0.1"}, Lifetime: machine.Duration(90 * 24 * time.Hour),
		},
		Binaries: machine.Binaries{SkipChecksum: true},
		Service:  machine.Service{InitSystem: machine.Kubelet, Priorities: []string{}},
		Etcd: machine.Etcd{
			QuotaBytes: 8 << 30, Flags: map[string]string{"snapshot-count": "5000", "pre-vote": "true", "log-level": "debug"},
			Environment: map[string]string{"GOGC": "50"},
		},
		Timeouts: machine.Timeouts{Start: machine.Duration(90 * time.Second)},
	}
	if !reflect.DeepEqual(f.Config, want) {
		t.Errorf("got  %+v\nwant %+v", f.Config, want)
	}
	e := f.Locate(&machine.FieldError{Path: "etcd.flags.pre-vote", Text: "is odd"})
	if e == nil || e.Error() != "member.yaml:25:15: etcd.flags.pre-vote: is odd" {
		t.Errorf("located at %v", e)
	}
	if e := f.Locate(&machine.FieldError{Path: "paths.cache"}); e != nil {
		t.Errorf("a field that is not set is at %v", e)
	}
}

func TestJSON(t *testing.T) {
	for name, in := range map[string]string{
		"short": `{"apiVersion":"etcdadm.dev/v1","kind":"Member","name":"a","etcd":{"flags":{"snapshot-count":5}}}`,
		"indents": "{\n  \"apiVersion\": \"etcdadm.dev/v1\",\n  \"kind\": \"Member\",\n  \"name\": \"a\",\n  \"etcd\": " +
			"{\n    \"flags\": {\"snapshot-count\": \"5\"}\n  }\n}\n",
		"tabs": "{\n\t\"apiVersion\": \"etcdadm.dev/v1\",\n\t\"kind\": \"Member\",\n\t\"name\": \"\\u0061\",\n\t\"etcd\": " +
			"{\n\t\t\"flags\": {\"snapshot-count\": \"5\"}\n\t}\n}\n",
	} {
		f, err := Parse("x.json", []byte(in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if f.Config.Name != "a" || f.Config.Etcd.Flags["snapshot-count"] != "5" {
			t.Errorf("%s: got %+v", name, f.Config)
		}
	}
	// What encoding/json writes of a Config is read too.
	c := filled(t)
	b, err := json.Marshal(struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		machine.Config
	}{APIVersion, Kind, c})
	if err != nil {
		t.Fatal(err)
	}
	f, err := decode("x.json", b)
	if err != nil || !reflect.DeepEqual(f.Config, c) {
		t.Errorf("got %+v, %v", f, err)
	}
}

func TestErrorsNameLineAndField(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"unknown field", head + "paths:\n  dtaa: /x\n", "m.yaml:4:3: paths.dtaa: unknown field, did you mean data?"},
		{"unknown section", head + "network: {}\n", "m.yaml:3:1: network: unknown field"},
		{"field of another place", head + "data: /x\n", "m.yaml:3:1: data: unknown field"},
		{"field in other case", head + "Name: x\n", "m.yaml:3:1: Name: unknown field, did you mean name?"},
		{"twice", head + "name: a\npaths: {}\nname: b\n", "m.yaml:5:1: name: is there twice, first in line 3"},
		{"twice in a map", head + "etcd: {flags: {a: 1, a: 2}}\n",
			"m.yaml:3:22: etcd.flags.a: is there twice, first in line 3"},
		{"second document", head + "---\n" + head, "m.yaml:3:1: there is a second document, but only one is allowed"},
		{"number for text", head + "name: 12\n", "m.yaml:3:7: name: is the number 12 instead of text (put it in quotes)"},
		{"half a version", head + "version: 3.6\n",
			`m.yaml:3:10: version: is the number 3.6 instead of text (put it in quotes), such as "3.6.16"`},
		{"no version", head + "version: latest\n", `m.yaml:3:10: version: etcd version "latest" is not of the form 3.6.16`},
		{"text for number", head + "listen:\n  clientPort: \"2379\"\n",
			`m.yaml:4:15: listen.clientPort: is "2379" instead of a whole number`},
		{"fraction", head + "listen: {clientPort: 2.5}\n",
			"m.yaml:3:22: listen.clientPort: is the number 2.5 instead of a whole number"},
		{"text for truth", head + "binaries: {skipChecksum: \"true\"}\n",
			`m.yaml:3:26: binaries.skipChecksum: is "true" instead of true or false`},
		{"truth of old YAML", head + "binaries: {skipChecksum: yes}\n",
			`m.yaml:3:26: binaries.skipChecksum: is "yes" instead of true or false`},
		{"number for duration", head + "timeouts: {start: 10}\n",
			"m.yaml:3:19: timeouts.start: is the number 10 instead of a duration, as 1m30s"},
		{"no duration", head + "timeouts: {start: soon}\n", `m.yaml:3:19: timeouts.start: is "soon" instead of a duration`},
		{"text for list", head + "certificates: {serverSANs: a}\n",
			`m.yaml:3:28: certificates.serverSANs: is "a" instead of a list`},
		{"list in list", head + "certificates: {serverSANs: [a, [b]]}\n",
			"m.yaml:3:32: certificates.serverSANs[1]: is a list instead of text"},
		{"text for section", head + "paths: /x\n", `m.yaml:3:8: paths: is "/x" instead of fields with values`},
		{"list for section", head + "paths: [a]\n", "m.yaml:3:8: paths: is a list instead of fields with values"},
		{"list for map", head + "etcd: {flags: [a=b]}\n", "m.yaml:3:15: etcd.flags: is a list instead of names with values"},
		{"list in map", head + "etcd: {flags: {cors: [a]}}\n", "m.yaml:3:22: etcd.flags.cors: is a list instead of text"},
		{"nothing in map", head + "etcd: {flags: {cors: }}\n", "etcd.flags.cors: is nothing instead of text"},
		{"no size", head + "etcd: {quotaBytes: 8Gig}\n", `m.yaml:3:20: etcd.quotaBytes: is "8Gig" instead of a size`},
		{"negative size", head + "etcd: {quotaBytes: -1}\n", "m.yaml:3:20: etcd.quotaBytes: is the number -1 instead of a size"},
		{"key that is no text", head + "12: x\n", "m.yaml:3:1: has the number 12 as the name of a field"},
		{"alias", head + "name: &n a\nservice: {user: *n}\n", "m.yaml:3:7: name: is or has a YAML anchor"},
		{"merge", head + "<<: {name: a}\n", "m.yaml:3:1: has"},
		{"own type", head + "name: !x a\n", `m.yaml:3:7: name: is "a" of the type !x instead of text`},
		{"other version", "apiVersion: etcdadm.dev/v9\nkind: Member\nnew: 1\n",
			`m.yaml:1:13: apiVersion: is "etcdadm.dev/v9", but this etcdadm reads etcdadm.dev/v1`},
		{"other kind", "apiVersion: etcdadm.dev/v1\nkind: Pod\n",
			`m.yaml:2:7: kind: is "Pod", but this etcdadm reads Member`},
		{"no version of the file", "kind: Member\n", "m.yaml:1:1: apiVersion: is missing; write apiVersion: etcdadm.dev/v1"},
		{"no kind", "apiVersion: etcdadm.dev/v1\n", "m.yaml:1:1: kind: is missing; write kind: Member"},
		{"kind twice", head + "kind: Member\n", "m.yaml:3:1: kind: is there twice"},
		{"empty", "", "m.yaml:1: it is empty; it must begin with apiVersion"},
		{"only comments", "# nothing\n", "m.yaml:1: it is empty"},
		{"a list", "- a\n", "m.yaml:1:1: it is a list instead of fields with values"},
		{"a word", "a\n", `m.yaml:1:1: it is "a" instead of fields with values`},
		{"no YAML", head + "name: a\n  b: c\n", "m.yaml:4: it is not YAML: mapping values are not allowed"},
		{"tab", head + "paths:\n\tdata: /x\n", "it is not YAML: found character that cannot start any token"},
		{"broken JSON", `{"apiVersion": "etcdadm.dev/v1", `, "it is not YAML"},
		{"broken second document", head + "---\n{", "it is not YAML"},

		{"impossible value", head + "listen:\n  address: example.com\n",
			`m.yaml:4:12: listen.address: is "example.com", not an IP address`},
		{"impossible element", head + "certificates:\n  serverSANs:\n  - a\n  - b c\n",
			"m.yaml:6:5: certificates.serverSANs[1]: is \"b c\", neither a host name nor an IP address"},
		{"impossible pair", head + "etcd:\n  environment:\n    A: \"x\\ny\"\n", "m.yaml:5:8: etcd.environment.A: is wrong"},
		{"flag that the version lacks", head + "version: 3.7.3\netcd:\n  flags:\n    experimental-corrupt-check-time: 1h\n",
			"m.yaml:6:38: etcd.flags.experimental-corrupt-check-time: is gone from etcd 3.7.3 (3.6 was the last with it), " +
				"use corrupt-check-time"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Parse("m.yaml", []byte(tt.in))
			var wrong Errors
			if !errors.As(err, &wrong) || f != nil {
				t.Fatalf("got %+v, %v", f, err)
			}
			if !strings.Contains(wrong[0].Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", wrong, tt.want)
			}
			if wrong.Kind() != "usage" {
				t.Errorf("it is of the kind %s", wrong.Kind())
			}
		})
	}
}

// A flag is judged by the version that is installed in the end, which a file
// that names none does not know.
func TestFlagsWithoutAVersionAreNotJudged(t *testing.T) {
	if _, err := Parse("m.yaml",
		[]byte(head+"etcd: {flags: {experimental-corrupt-check-time: 1h, new-in-3-9: x}}\n")); err != nil {
		t.Error(err)
	}
}

func TestAllErrorsAreNamedByLine(t *testing.T) {
	_, err := Parse("m.yaml", []byte(head+"timeouts: {start: -1s}\nlisten: {address: x, clientPort: 99999}\nname: a b\n"))
	var wrong Errors
	if !errors.As(err, &wrong) {
		t.Fatal(err)
	}
	var got []string
	for _, e := range wrong {
		got = append(got, fmt.Sprintf("%d:%s", e.Line, e.Path))
	}
	if s := strings.Join(got, " "); s != "3:timeouts.start 4:listen.address 4:listen.clientPort 5:name" {
		t.Errorf("got %s", s)
	}
	if n := strings.Count(err.Error(), "\n"); n != 3 {
		t.Errorf("the text has %d lines: %s", n+1, err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "member.yaml")
	if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path)
	if err != nil || c.Name != "a" {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, err := Load(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "configuration "+dir) {
		t.Errorf("a directory: %v", err)
	}
	if err := os.WriteFile(path, []byte(head+"x: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.HasPrefix(err.Error(), path+":3:1: x: ") {
		t.Errorf("a bad file: %v", err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("#\n", maxBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a huge file: %v", err)
	}
}

func TestStandardInput(t *testing.T) {
	f, err := Read("-", strings.NewReader(whole))
	if err != nil || f.Config.Name != "a" {
		t.Errorf("got %+v, %v", f, err)
	}
	if _, err = Read("-", strings.NewReader("x")); err == nil || !strings.HasPrefix(err.Error(), "standard input:1:1: ") {
		t.Errorf("got %v", err)
	}
}

func TestOverlay(t *testing.T) {
	base := machine.Defaults()
	base.Etcd.Flags = map[string]string{"a": "1", "b": "1"}
	over := machine.Config{
		Name:    "n",
		Paths:   machine.Paths{Data: "/d"},
		Service: machine.Service{Priorities: []string{}},
		Etcd:    machine.Etcd{Flags: map[string]string{"b": "2", "c": "2"}},
	}
	got := Overlay(base, over)
	want := machine.Defaults()
	want.Name, want.Paths.Data, want.Service.Priorities = "n", "/d", []string{}
	want.Etcd.Flags = map[string]string{"a": "1", "b": "2", "c": "2"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if len(base.Etcd.Flags) != 2 || len(over.Etcd.Flags) != 2 {
		t.Error("an argument was changed")
	}
	if !reflect.DeepEqual(Overlay(base, machine.Config{}), base) {
		t.Error("nothing over it is not nothing")
	}
	all := filled(t)
	if !reflect.DeepEqual(Overlay(machine.Defaults(), all), all) {
		t.Error("not every field goes over a default")
	}
}
