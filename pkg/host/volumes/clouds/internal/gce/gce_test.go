package gce

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"cloud.google.com/go/compute/metadata"
	"google.golang.org/api/option"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/gcetest"
)

// here redirects the metadata client, which has no address of its own to set.
type here struct{ url *url.URL }

func (h here) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = h.url.Scheme, h.url.Host
	return http.DefaultTransport.RoundTrip(r)
}

// serve returns the provider of what a fake serves.
func serve(t *testing.T, f *gcetest.Fake) *provider {
	s := httptest.NewServer(f.Handler())
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return open(volumestest.KopsOptions("gce"), metadata.NewClient(&http.Client{Transport: here{u}}),
		option.WithEndpoint(s.URL+"/compute/v1/"), option.WithHTTPClient(s.Client()))
}

func TestProvider(t *testing.T) {
	cloud := gcetest.Cloud()
	cloud.Open = func(t *testing.T, w *volumestest.World) volumes.Provider {
		return serve(t, &gcetest.Fake{T: t, W: w})
	}
	volumestest.Run(t, cloud)
}

func TestLabelsAreDecoded(t *testing.T) {
	for label, want := range map[string]string{
		"a-2fa": "a/a", "us-2dtest1-2da-2fus-2dtest1-2da": "us-test1-a/us-test1-a", "": "", "a-": "a-", "a-x": "a-x",
	} {
		if got := decode(label); got != want {
			t.Errorf("%q is %q, want %q", label, got, want)
		}
	}
}

func TestOnlyWhatKopsGrantsIsCalled(t *testing.T) {
	m := &volumestest.Machine{ID: "us-test1-a/m", Name: "m", Zone: "us-test1-a", Addresses: []string{"10.0.0.1"}}
	d := gcetest.Disk(1, volumestest.Place{Cluster: "prod.example.com", Etcd: "main", Member: "a", Zone: "us-test1-a"})
	f := &gcetest.Fake{T: t, W: &volumestest.World{
		Self: m, Machines: []*volumestest.Machine{m}, Disks: []*volumestest.Disk{d},
	}}
	p := serve(t, f)
	found, err := p.Find(t.Context())
	if err == nil {
		_, err = p.Attach(t.Context(), found[0])
	}
	if err == nil {
		_, err = p.Nodes(t.Context())
	}
	if err != nil || len(f.Calls()) != 5 {
		t.Errorf("%v, %v", f.Calls(), err)
	}
}

func TestFlagsAreChecked(t *testing.T) {
	if _, err := New(t.Context(), volumes.Options{}); err == nil || !strings.Contains(err.Error(), "--volume-tag") {
		t.Errorf("%v", err)
	}
}
