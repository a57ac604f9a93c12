package fleet

import (
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// An address that nobody answers at is in the reason once, also where the reason begins with it.
func TestAnAddressIsOnceInTheReason(t *testing.T) {
	c := &Client{nameless: []cluster.Gap{
		{Source: "10.0.0.77:8000", Text: "10.0.0.77:8000: no connection in time"},
		{Source: "10.0.0.78:8000", Text: "it is stopping"},
	}}
	want := "none of 10.0.0.77:8000, 10.0.0.78:8000 answers: 10.0.0.77:8000: no connection in time; " +
		"10.0.0.78:8000: it is stopping"
	if err := c.nobody(nil); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
