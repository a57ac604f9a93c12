package certs

import (
	"path/filepath"
	"testing"
)

// Making a CA and the four pairs of a machine, with fsync: what a first start
// pays for keys.
func BenchmarkMachineCertificates(b *testing.B) {
	for name, useRSA := range map[string]bool{"ECDSA-P256": false, "RSA-2048": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s := MachineSpec{Dir: filepath.Join(b.TempDir(), "pki"), Name: "a", Address: "10.0.0.1", RSA: useRSA}
				if err := CreateMachineCA(s, now); err != nil {
					b.Fatal(err)
				}
				if issued, err := IssueMachine(s, now); err != nil || len(issued) != len(MachinePairs()) {
					b.Fatalf("issued %q, %v", issued, err)
				}
			}
		})
	}
}
