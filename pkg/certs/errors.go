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
		"put the certificate of that key into the bundle, or install the key of one of its certificates", e.CertFile, e.KeyFile)
}

// A NotCAError says that a certificate may not issue others.
type NotCAError struct {
	File, CommonName string
}

func (e *NotCAError) Error() string {
	return fmt.Sprintf("certificate %q in %s is not a CA certificate; install the CA's own certificate", e.CommonName, e.File)
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
