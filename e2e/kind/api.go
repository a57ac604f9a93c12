//go:build e2e

package kind

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// configMaps is where the writer writes.
const configMaps = "/api/v1/namespaces/default/configmaps"

// An API is a client of Kubernetes' API.
type API struct {
	server   string
	client   *http.Client
	machines []machine
}

// A statusError is an answer that is not the expected one.
type statusError struct {
	code int
	text string
}

// Error returns the code and the text.
func (e *statusError) Error() string { return fmt.Sprintf("%d: %s", e.code, e.text) }

// is reports whether an error is an answer with a code.
func is(err error, code int) bool {
	var s *statusError
	return errors.As(err, &s) && s.code == code
}

func newAPI(server string, ca, cert, key []byte) (*API, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("no certificate authority in the kubeconfig")
	}
	return &API{server: server, client: &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
			// Each request may go to another API server, as those of many clients do.
			DisableKeepAlives: true,
		},
	}}, nil
}

// do sends a request, and decodes the answer into out where it is not nil. Its errors are [requestError].
func (a *API) do(ctx context.Context, method, path string, in, out any) error {
	var by atomic.Pointer[x509.Certificate]
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeDone: func(s tls.ConnectionState, err error) {
			if err == nil {
				by.Store(s.PeerCertificates[0])
			}
		},
	})
	err := a.send(ctx, method, path, in, out)
	if err == nil {
		return nil
	}
	failed := &requestError{err: err}
	for _, m := range a.machines {
		if cert := by.Load(); cert != nil && cert.VerifyHostname(string(m)) == nil {
			failed.server = m
		}
	}
	return failed
}

// send is do without a word on which API server failed.
func (a *API) send(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.server+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return &statusError{code: resp.StatusCode, text: last(string(b), 500)}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(b, out)
}

// A configMap is what the writer writes.
type configMap struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metadata          `json:"metadata"`
	Data       map[string]string `json:"data"`
}

type metadata struct {
	Name            string            `json:"name"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
}

// A configMapList is the answer to a list.
type configMapList struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []configMap `json:"items"`
}
