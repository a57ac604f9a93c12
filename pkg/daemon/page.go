package daemon

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A PageSource is what a daemon's status page is made from. The functions may be called
// at the same time; each ends with its context.
type PageSource struct {
	Cluster string
	Node    cluster.NodeName
	// Store is the location of its store.
	Store string
	Now   func() time.Time
	// Report returns what this daemon's own loop reported a moment ago; ok is false where
	// it does not report, since another daemon coordinates.
	Report func() (r reconcile.Report, ok bool)
	// Observe observes for the page; prev is the last observation for it.
	Observe func(ctx context.Context, prev cluster.Observation) (cluster.Spec, cluster.Observation)
	// Published returns what a coordinator published last.
	Published func(ctx context.Context) (reconcile.Report, error)
	// Past returns the history.
	Past func(ctx context.Context) (store.Past, error)
}

// reportAge is how old the loop's report may be for the page: an idle coordinator
// observes every five seconds.
const reportAge = 8 * time.Second

func (d *Daemon) pageSource() PageSource {
	return PageSource{
		Cluster: d.c.ClusterName, Node: d.name, Store: d.c.BackupStore, Now: d.now, Past: d.store.Past,
		Report: func() (reconcile.Report, bool) {
			r := d.nums.cluster.last.Load()
			if r == nil || d.now().Sub(r.At) > reportAge {
				return reconcile.Report{}, false
			}
			return *r, true
		},
		Observe: func(ctx context.Context, prev cluster.Observation) (cluster.Spec, cluster.Observation) {
			obs := d.fleet.Show(ctx, prev)
			if d.c.Static != nil {
				obs.Store.SpecMissing = false // the flags have it
			}
			return d.knownSpec(), obs
		},
		Published: func(ctx context.Context) (r reconcile.Report, err error) {
			b, err := d.store.Status(ctx)
			if err == nil {
				err = json.Unmarshal(b, &r)
			}
			return r, err
		},
	}
}

// page returns the handler of the status page, nil for none, and the TLS
// configuration without which it is not served, nil for none.
func (d *Daemon) page() (http.Handler, *tls.Config) {
	if d.c.Page == nil {
		return nil, nil
	}
	h := d.c.Page(d.pageSource())
	if d.c.Insecure {
		return named(h, d.name), nil
	}
	return authorized(h), d.keys.server.ServerTLS()
}

// authorized lets only owners of certificates see the page, as the daemon's port does:
// nodes, operators and readers.
func authorized(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil {
			refuse(w, http.StatusForbidden, "the status page needs a certificate of the daemons: run etcdadm dashboard")
			return
		}
		if _, err := certs.PeerOwner(*r.TLS); err != nil {
			refuse(w, http.StatusForbidden, err.Error())
			return
		}
		h.ServeHTTP(w, r)
	})
}

// named lets only requests for this machine through, so that no web site of another
// name can have a browser read the page for it (DNS rebinding).
func named(h http.Handler, node cluster.NodeName) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if _, err := netip.ParseAddr(trimBrackets(host)); err != nil && host != "localhost" && host != string(node) {
			refuse(w, http.StatusMisdirectedRequest, "ask for the status page by an IP address, localhost or the node's name")
			return
		}
		h.ServeHTTP(w, r)
	})
}

func trimBrackets(host string) string {
	if n := len(host); n > 2 && host[0] == '[' && host[n-1] == ']' {
		return host[1 : n-1]
	}
	return host
}

func refuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
}
