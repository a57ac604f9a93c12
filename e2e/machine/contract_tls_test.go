package machine

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// rsaInit is init with the only suite of EKS Anywhere, which is for RSA keys.
const rsaInit = "etcdadm init --bind-address 127.0.0.1 --cipher-suites TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"

// The clients of EKS Anywhere may speak TLS 1.2.
func olderTLS(t *testing.T) {
	h := newMachine(t, "a", v36)
	h.fakeSystemd()
	h.seed(v36, archive(t, v36))
	h.ran(rsaInit)
	h.answersTLS12()
}

// Certificates that are there, with ECDSA keys, are issued again where this machine can do
// that, and refused where it cannot. preflight says so.
func olderTLSLater(t *testing.T) {
	h := newMachine(t, "a", v36)
	h.fakeSystemd()
	h.seed(v36, archive(t, v36))
	h.ran("etcdadm init phase certificates --bind-address 127.0.0.1")
	key := h.read(h.path("pki", "ca.key"))
	if err := os.Remove(h.path("pki", "ca.key")); err != nil {
		t.Fatal(err)
	}
	h.ran(strings.Replace(preflightOf(rsaInit), "-o json", "--cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", 1))
	for _, line := range []string{preflightOf(rsaInit), rsaInit} {
		if r := h.shell(line); r.code != 3 || !strings.Contains(r.stderr, "external-ca") ||
			!strings.Contains(r.stderr, "its key is ECDSA, and the cipher suites are for RSA alone") {
			t.Errorf("%s: %s", line, r)
		}
	}
	h.write(h.path("pki", "ca.key"), key, 0o600)
	var report struct {
		Ready    bool
		Findings []struct{ ID, Text string }
	}
	h.unmarshal(h.ran(preflightOf(rsaInit)), &report)
	reported := 0
	for _, f := range report.Findings {
		if f.ID == "CipherSuites" && strings.Contains(f.Text, "issued again") {
			reported++
		}
	}
	if !report.Ready || reported != 2 {
		t.Errorf("it reports %d times: %+v", reported, report)
	}
	if out := h.shell(rsaInit); out.code != 0 || !strings.Contains(out.stdout+out.stderr, "its key is ECDSA") {
		t.Fatalf("%s", out)
	}
	for pair, want := range map[string]x509.PublicKeyAlgorithm{
		"ca": x509.ECDSA, "server": x509.RSA, "peer": x509.RSA, "apiserver-etcd-client": x509.ECDSA,
	} {
		if got := h.certificate(pair).PublicKeyAlgorithm; got != want {
			t.Errorf("the key of %s is %s, want %s", pair, got, want)
		}
	}
	h.answersTLS12()
	if out := h.ran(rsaInit); !strings.Contains(out, "Nothing to do") {
		t.Errorf("again: %s", out)
	}
}

// preflightOf returns the line that checks an init.
func preflightOf(line string) string {
	return strings.Replace(line, "etcdadm init", "etcdadm preflight -o json", 1)
}

// answersTLS12 fails the test unless the member answers a client of TLS 1.2 that has
// nothing but a suite for RSA keys.
func (h *host) answersTLS12() {
	h.t.Helper()
	client := h.http("apiserver-etcd-client")
	conf := client.Transport.(*http.Transport).TLSClientConfig
	conf.MaxVersion, conf.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
	resp, err := client.Get(h.clientURL() + "/health")
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), `"health":"true"`) {
		h.t.Errorf("%s %s %v", resp.Status, body, err)
	}
}
