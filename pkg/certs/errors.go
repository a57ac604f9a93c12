package certs

import (
	"fmt"
	"time"
)

// A KeyMismatchError says that no certificate of a CA bundle belongs to the
// CA's private key.
type KeyMismatchError struct {
	CertFile, KeyFile string
}

func (e *KeyMismatchError) Error() string {
	return fmt.Sprintf("no certificate in %s belongs to the private key in %s; "+
		"put the certificate of that key into the bundle, or install the key of one of its certificates", e.CertFile,
		e.KeyFile)
}

// A NotCAError says that a certificate may not issue others.
type NotCAError struct {
	File, CommonName string
}

func (e *NotCAError) Error() string {
	return fmt.Sprintf("certificate %q in %s is not a CA certificate; install the CA's own certificate", e.CommonName,
		e.File)
}

// A ValidityError says that a CA certificate has expired or is not valid yet.
type ValidityError struct {
	File, CommonName         string
	NotBefore, NotAfter, Now time.Time
}

// Expired says which of the two it is.
func (e *ValidityError) Expired() bool { return e.Now.After(e.NotAfter) }

func (e *ValidityError) Error() string {
	const day = time.DateTime + " UTC"
	now := e.Now.UTC().Format(day)
	if e.Expired() {
		return fmt.Sprintf("CA certificate %q in %s expired on %s, now is %s; install a new CA pair",
			e.CommonName, e.File, e.NotAfter.UTC().Format(day), now)
	}
	return fmt.Sprintf("CA certificate %q in %s is not valid before %s, now is %s; check the clock of this machine",
		e.CommonName, e.File, e.NotBefore.UTC().Format(day), now)
}

// A FileError says that a file of the PKI cannot be used, and what to do.
type FileError struct {
	File string
	// Problem names the file.
	Problem string
	// Do is the hint.
	Do string
}

func (e *FileError) Error() string { return "certificates: " + e.Problem }

// Hint says what to do about it.
func (e *FileError) Hint() string { return e.Do }

// caProblem is the FileError of a CA that is there and not good.
func caProblem(dir string, check CACheck) error {
	do := "compare ca.crt and ca.key with those of another machine of the cluster"
	if check.State == PairExpired {
		do = "nothing that it issued is accepted any more: move ca.crt and ca.key away on all machines, make a new CA on " +
			"one of them with etcdadm init phase certificates, and copy it to the others"
	}
	return &FileError{File: pairFile(dir, MachineCA, ".crt"), Problem: check.Problem, Do: do}
}
