package machines

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// expired returns the certificates that have expired.
func expired(obs machine.Observation) []machine.Expiring {
	return slices.DeleteFunc(slices.Clone(obs.PKI.Expiring), func(e machine.Expiring) bool { return !e.Expired })
}

// wrongPair returns the first certificate that has to be issued for another reason than
// that it soon expires.
func wrongPair(obs machine.Observation) (machine.WrongPair, bool) {
	i := slices.IndexFunc(obs.PKI.Wrong, func(w machine.WrongPair) bool {
		return !slices.ContainsFunc(obs.PKI.Expiring, func(e machine.Expiring) bool { return e.Name == w.Name && !e.Expired })
	})
	if i < 0 {
		return machine.WrongPair{}, false
	}
	return obs.PKI.Wrong[i], true
}

// certificatesState says in a word how this machine's certificates are.
func certificatesState(obs machine.Observation) string {
	_, wrong := wrongPair(obs)
	switch {
	case len(expired(obs)) > 0:
		return "expired"
	case wrong:
		return "wrong"
	case len(obs.PKI.Expiring) > 0:
		return "expires soon"
	}
	return string(obs.PKI.CA)
}

// certificates says what is wrong with the certificates and what to do, or how long they
// are good.
func certificates(obs machine.Observation) string {
	wrong, isWrong := wrongPair(obs)
	switch {
	case len(expired(obs)) > 0:
		return ends(obs, expired(obs)[0])
	case obs.PKI.Problem != "":
		return obs.PKI.Problem
	case isWrong:
		return fmt.Sprintf("%s: %s (%s)", wrong.Name, wrong.Why, renewal(obs))
	case len(obs.PKI.Expiring) > 0:
		return ends(obs, obs.PKI.Expiring[0])
	case obs.PKI.NotAfter.IsZero():
		return ""
	}
	return "the authority is valid until " + obs.PKI.NotAfter.UTC().Format(time.DateOnly)
}

// ends says when a certificate expires, and what to do.
func ends(obs machine.Observation, e machine.Expiring) string {
	verb, remedy := "expires", renewal(obs)
	if e.Expired {
		verb = "expired"
	}
	if e.Name == certs.MachineCA {
		remedy = "etcdadm certs rotate-ca prepare"
		if obs.PKI.CA == machine.CAExternal {
			remedy = "it is replaced where its key is"
		}
		if e.Expired {
			remedy = "etcdadm certs check-expiration says what to do"
		}
	}
	return fmt.Sprintf("%s: it %s on %s (%s)", e.Name, verb, e.NotAfter.UTC().Format("2006-01-02 15:04 UTC"), remedy)
}

// renewal is how this machine gets new certificates.
func renewal(obs machine.Observation) string {
	switch {
	case unused(obs):
		return "etcdadm init and join issue certificates" // nothing shows which name and address
	case obs.PKI.CA == machine.CAExternal:
		return "etcdadm certs generate-csr"
	}
	return "etcdadm certs renew all"
}
