package daemon

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// gate is a collector that answers once it is open.
type gate struct{ begun, open chan struct{} }

func (g gate) Describe(chan<- *prometheus.Desc) {}

func (g gate) Collect(chan<- prometheus.Metric) {
	g.begun <- struct{}{}
	<-g.open
}

// However many ask for the numbers, they take a bounded part of the daemon's time.
func TestFewScrapesAtOnce(t *testing.T) {
	m := &metrics{registry: prometheus.NewRegistry()}
	g := gate{make(chan struct{}), make(chan struct{})}
	m.registry.MustRegister(g)
	h := m.handler(web{})
	ask := func() int {
		r := httptest.NewRecorder()
		h.ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		return r.Code
	}
	codes := make(chan int, maxScrapes)
	for range maxScrapes {
		go func() { codes <- ask() }()
		<-g.begun
	}
	if code := ask(); code != http.StatusServiceUnavailable {
		t.Errorf("one more is answered with %d", code)
	}
	close(g.open)
	for range maxScrapes {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("the answer is %d", code)
		}
	}
}
