package initfiles

import (
	"strings"
	"testing"

	kyaml "sigs.k8s.io/yaml"
)

func TestWordsOfAUnit(t *testing.T) {
	for in, want := range map[string]string{
		"a": "a", "--x=/a/b:1,c@d": "--x=/a/b:1,c@d", "": `""`, "a b": `"a b"`, "it's": `"it's"`,
		`a"b\c`: `"a\"b\\c"`, "100%$x": "100%%$$x",
	} {
		if got := execWord(in); got != want {
			t.Errorf("%q is %s to systemd, want %s", in, got, want)
		}
	}
}

// What neither file can carry is refused, whatever the program's flags are.
func TestProgramsAreRefusedWhatFilesCannotCarry(t *testing.T) {
	unit := ProgramUnit{Program: "/bin/p", EnvFile: "/etc/p.env"}
	pod := ProgramPod{Name: "p", Container: "p", Image: "i"}
	if _, err := unit.Unit(); err != nil {
		t.Fatal(err)
	}
	if _, err := pod.Manifest(); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*ProgramUnit, *ProgramPod){
		"a line break":      func(u *ProgramUnit, p *ProgramPod) { u.Args, p.Args = []string{"a\nb"}, []string{"a\nb"} },
		"what is not UTF-8": func(u *ProgramUnit, p *ProgramPod) { u.Args, p.Args = []string{"\xff"}, []string{"\xff"} },
		"a relative directory": func(u *ProgramUnit, p *ProgramPod) {
			u.WriteDirs, p.Mounts = []string{"a"}, []Mount{{Path: "a"}}
		},
		"no program": func(u *ProgramUnit, p *ProgramPod) { u.Program, p.Image = "", "" },
		"a wildcard": func(u *ProgramUnit, p *ProgramPod) {
			u.WriteDirs, p.Mounts = []string{"/*"}, []Mount{{Path: "/a", HostPath: "/*"}}
		},
	} {
		u, p := unit, pod
		change(&u, &p)
		if text, err := u.Unit(); err == nil {
			t.Errorf("%s is in a unit:\n%s", what, text)
		}
		if text, err := p.Manifest(); err == nil {
			t.Errorf("%s is in a pod:\n%s", what, text)
		}
	}
	for _, url := range []string{"https://127.0.0.1:1", "http://127.0.0.1", "http://127.0.0.1:1/x", "%"} {
		pod.ProbeURL = url
		if _, err := pod.Manifest(); err == nil {
			t.Errorf("%s is probed", url)
		}
	}
}

// A program that mounts volumes sees the machine, another one nothing that is not
// named.
func TestWhatProgramsSee(t *testing.T) {
	for _, host := range []bool{false, true} {
		pod := ProgramPod{Name: "p", Container: "p", Image: "i", Host: host, ProbeURL: "http://[::]:8080"}
		text, err := pod.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		var tree map[string]any
		if err := kyaml.UnmarshalStrict([]byte(text), &tree); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if strings.Contains(text, "privileged: true") != host || strings.Contains(text, "hostPID: true") != host ||
			strings.Contains(text, "readOnlyRootFilesystem: true") == host || !strings.Contains(text, `host: "127.0.0.1"`) {
			t.Errorf("%s", text)
		}
		unit, err := ProgramUnit{Program: "/bin/p", EnvFile: "/etc/p.env", Host: host}.Unit()
		if err != nil || strings.Contains(unit, "ProtectSystem=strict") == host {
			t.Errorf("%v\n%s", err, unit)
		}
	}
}
