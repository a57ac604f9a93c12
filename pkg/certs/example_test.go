package certs_test

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
)

// The PKI of the first machine of a cluster: a CA, and the certificates that
// etcd, etcdctl and the API servers need. To run it again changes nothing.
func Example() {
	dir, err := os.MkdirTemp("", "pki-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	now := time.Now()

	spec := certs.MachineSpec{Dir: dir, Name: "node1", Address: "10.0.0.1", ServerSANs: []string{"etcd.example.com"}}
	if err := certs.CreateMachineCA(spec, now); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		issued, err := certs.IssueMachine(spec, now)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("issued:", issued)
	}

	all, err := certs.Expiries(dir, now)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range all {
		fmt.Printf("%s: %s %v, %.0f days\n", e.Name, e.CommonName, e.SANs, e.Left().Hours()/24)
	}
	// Output:
	// issued: [server peer etcdctl-etcd-client apiserver-etcd-client]
	// issued: []
	// server: node1 [node1 localhost etcd.example.com 10.0.0.1 127.0.0.1 ::1], 365 days
	// peer: node1 [node1 10.0.0.1 127.0.0.1 ::1], 365 days
	// etcdctl-etcd-client: node1-etcdctl [], 365 days
	// apiserver-etcd-client: node1-kube-apiserver-etcd-client [], 365 days
	// ca: etcd [etcd], 3650 days
}

// A machine that joins has the CA of the cluster, or must not go on: one that it
// made itself would be trusted by nobody.
func ExampleIssueMachine() {
	dir, err := os.MkdirTemp("", "pki-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	_, err = certs.IssueMachine(certs.MachineSpec{Dir: dir, Name: "node2", Address: "10.0.0.2"}, time.Now())
	var missing *certs.NoCAError
	fmt.Println("no CA:", errors.As(err, &missing))
	// Output:
	// no CA: true
}

// What is there is held against what is wanted. Here the machine gets another
// name for its clients; only the server's certificate is issued again.
func ExampleObserveMachine() {
	dir, err := os.MkdirTemp("", "pki-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	now := time.Now()
	spec := certs.MachineSpec{Dir: dir, Name: "node1", Address: "10.0.0.1"}
	if err := certs.CreateMachineCA(spec, now); err != nil {
		log.Fatal(err)
	}
	if _, err := certs.IssueMachine(spec, now); err != nil {
		log.Fatal(err)
	}

	spec.ServerSANs = []string{"etcd.example.com"}
	seen := certs.ObserveMachine(spec, now)
	for _, leaf := range seen.Leaves {
		fmt.Printf("%s is %s: %q\n", leaf.Name, leaf.State, leaf.Why)
	}
	fmt.Println("to issue:", seen.ToIssue())
	// Output:
	// server is wrong: "SAN etcd.example.com is missing"
	// peer is ok: ""
	// etcdctl-etcd-client is ok: ""
	// apiserver-etcd-client is ok: ""
	// to issue: [server]
}

// An external CA: the keys are made on the machine and stay there, requests go
// out, certificates come back.
func ExampleGenerateCSRs() {
	dir, err := os.MkdirTemp("", "pki-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	spec := certs.MachineSpec{Dir: dir, Name: "node1", Address: "10.0.0.1"}
	requests, err := certs.GenerateCSRs(spec, filepath.Join(dir, "requests"))
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range requests {
		text, err := os.ReadFile(r.File)
		if err != nil {
			log.Fatal(err)
		}
		block, _ := pem.Decode(text)
		csr, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(filepath.Base(r.File), csr.Subject, "->", filepath.Base(r.CertFile))
	}
	// Output:
	// server.csr CN=node1 -> server.crt
	// peer.csr CN=node1 -> peer.crt
	// etcdctl-etcd-client.csr CN=node1-etcdctl,O=system:masters -> etcdctl-etcd-client.crt
	// apiserver-etcd-client.csr CN=node1-kube-apiserver-etcd-client,O=system:masters -> apiserver-etcd-client.crt
}

// A controller that keeps the CA of a cluster makes the client certificate of
// its API servers, in memory: what goes into the secret NAME-apiserver-etcd-client
// of Cluster API.
func ExampleCA_Issue() {
	now := time.Now()
	ca, err := certs.NewCA(certs.CASpec{CommonName: "etcd", Lifetime: certs.MachineCALifetime}, now)
	if err != nil {
		log.Fatal(err)
	}
	leaf, err := ca.Issue(certs.Request{
		CommonName: "prod-kube-apiserver-etcd-client", Organization: []string{certs.MastersGroup},
		Client: true, Lifetime: certs.MachineLifetime,
	}, now)
	if err != nil {
		log.Fatal(err)
	}
	key, err := leaf.KeyPEM()
	if err != nil {
		log.Fatal(err)
	}
	secret := map[string][]byte{"tls.crt": leaf.CertPEM(), "tls.key": key, "ca.crt": ca.PEM()}

	_, err = leaf.Cert.Verify(x509.VerifyOptions{
		Roots: ca.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	fmt.Println(len(secret), leaf.Cert.Subject, err)
	// Output:
	// 3 CN=prod-kube-apiserver-etcd-client,O=system:masters <nil>
}

// Renewal keeps subject, names and key. A running etcd shows the new
// certificate from the next connection on.
func ExampleRenewFiles() {
	dir, err := os.MkdirTemp("", "pki-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	made := time.Now()
	spec := certs.MachineSpec{Dir: dir, Name: "node1", Address: "10.0.0.1"}
	if err := certs.CreateMachineCA(spec, made); err != nil {
		log.Fatal(err)
	}
	if _, err := certs.IssueMachine(spec, made); err != nil {
		log.Fatal(err)
	}

	later := made.Add(300 * 24 * time.Hour)
	renewed, err := certs.RenewFiles(certs.MachineSpec{Dir: dir}, []string{certs.ServerPair}, later)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range renewed {
		fmt.Printf("%s: %.0f days more\n", r.Name, r.NotAfter.Sub(r.Before).Hours()/24)
	}
	// Output:
	// server: 300 days more
}
