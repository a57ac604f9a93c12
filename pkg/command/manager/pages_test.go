package manager

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// mapped returns how much of files this process has in memory, in KiB.
func mapped(t *testing.T) (kib int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if _, err := fmt.Sscanf(line, "RssFile: %d kB", &kib); err == nil {
			return kib
		}
	}
	t.Skip("the kernel does not show RssFile")
	return 0
}

// Most of a program is needed to start it, or never.
func TestPagesOfTheProgramAreGivenBack(t *testing.T) {
	before := mapped(t)
	if err := givePagesBack(); err != nil {
		t.Fatal(err)
	}
	after := mapped(t)
	if after > before*3/4 {
		t.Errorf("%d KiB of files were in memory, and %d are", before, after)
	}
	if err := givePagesBack(); err != nil { // what is needed is there again
		t.Error(err)
	}
}

func TestOnlyReadOnlyPartsOfTheProgramAreGivenBack(t *testing.T) {
	const program = "/usr/local/bin/etcd-manager"
	for line, want := range map[string]bool{
		"00400000-01a2b000 r-xp 00000000 fe:00 1234                       /usr/local/bin/etcd-manager": true,
		"01a2b000-03000000 r--p 0162b000 fe:00 1234                       /usr/local/bin/etcd-manager": true,
		"03000000-03100000 rw-p 02c00000 fe:00 1234                       /usr/local/bin/etcd-manager": false,
		"00400000-01a2b000 r-xs 00000000 fe:00 1234                       /usr/local/bin/etcd-manager": false,
		"7f0000000000-7f0000100000 r--p 00000000 fe:00 99                 /etc/ssl/certs/ca.pem":       false,
		"7f0000000000-7f0000100000 r-xp 00000000 00:00 0                  [vdso]":                      false,
		"c000000000-c000400000 rw-p 00000000 00:00 0":                                                  false,
		"": false,
	} {
		start, end, ok := readOnlyPart(line, program)
		if ok != want || ok && start >= end {
			t.Errorf("%q: %x to %x, %t", line, start, end, ok)
		}
	}
}
