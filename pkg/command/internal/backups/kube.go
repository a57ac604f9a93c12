package backups

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/keyspace"
)

// A place is where a key is in Kubernetes.
type place struct {
	// Resource is as kubectl names it: pods, certificates.cert-manager.io. Keys
	// that are not Kubernetes' have the part up to their second slash, in
	// brackets.
	Resource string `json:"resource"`
	// Namespace is empty for what is in none.
	Namespace string `json:"namespace,omitempty"`
}

// A registry distinguishes places by the prefixes under which API servers keep their
// objects: --etcd-prefix, by default /registry.
type registry struct{ prefixes []string }

// newRegistry looks for the prefixes: every cluster has the namespaces default
// and kube-system.
func newRegistry(spaces ...*keyspace.Space) registry {
	r := registry{}
	for _, s := range spaces {
		for _, k := range s.Keys("") {
			prefix, name, ok := strings.Cut(k.Key, "/namespaces/")
			if ok && (name == "default" || name == "kube-system") && !slices.Contains(r.prefixes, prefix+"/") {
				r.prefixes = append(r.prefixes, prefix+"/")
			}
		}
	}
	if len(r.prefixes) == 0 {
		r.prefixes = []string{"/registry/"}
	}
	return r
}

// renamed are the resources that have another name in etcd than for people
// (pkg/kubeapiserver/default_storage_factory_builder.go, SpecialDefaultResourcePrefixes).
var renamed = map[string]string{
	"minions":            "nodes",
	"controllers":        "replicationcontrollers",
	"podsecuritypolicy":  "podsecuritypolicies",
	"ingress":            "ingresses",
	"services/specs":     "services",
	"services/endpoints": "endpoints",
}

// place returns where a key is. Below the prefix it is
// RESOURCE[/NAMESPACE]/NAME, with the group before the resource for custom
// resources and for what extends the API itself.
func (r registry) place(key string) place {
	for _, prefix := range r.prefixes {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok || rest == "" {
			continue
		}
		parts := strings.Split(rest, "/")
		resource := parts[0]
		switch {
		case len(parts) > 2 && strings.Contains(parts[0], "."):
			resource, parts = parts[1]+"."+parts[0], parts[1:]
		case len(parts) > 2 && renamed[parts[0]+"/"+parts[1]] != "":
			resource, parts = parts[0]+"/"+parts[1], parts[1:]
		}
		if name := renamed[resource]; name != "" {
			resource = name
		}
		p := place{Resource: resource}
		if len(parts) > 2 {
			p.Namespace = parts[1]
		}
		return p
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(key, "/"), "/")
	if second, _, ok := strings.Cut(rest, "/"); ok {
		first += "/" + second
	}
	return place{Resource: "[" + first + "]"}
}

// A count is what is in a place.
type count struct {
	place
	Keys int `json:"keys"`
	// Bytes are those of keys and values at their present version.
	Bytes int64 `json:"bytes"`
	// Leased are the keys that hang on a lease.
	Leased int `json:"leased,omitempty"`
}

// A digest is the summary of a snapshot.
type digest struct {
	keyspace.Summary
	// Prefixes are those of Kubernetes' API servers.
	Prefixes []string `json:"prefixes"`
	// Places are the largest first.
	Places []count `json:"places"`
}

func newDigest(s *keyspace.Space, prefix string) digest {
	r := newRegistry(s)
	at := map[place]*count{}
	for _, k := range s.Keys(prefix) {
		p := r.place(k.Key)
		c := at[p]
		if c == nil {
			c = &count{place: p}
			at[p] = c
		}
		c.Keys++
		c.Bytes += int64(len(k.Key) + k.Size)
		if k.Lease != 0 {
			c.Leased++
		}
	}
	d := digest{Summary: s.Summary(), Prefixes: r.prefixes, Places: []count{}}
	for _, c := range at {
		d.Places = append(d.Places, *c)
	}
	slices.SortFunc(d.Places, larger)
	return d
}

func larger(a, b count) int {
	return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Resource, b.Resource),
		cmp.Compare(a.Namespace, b.Namespace))
}

// by adds up the places with the same name.
func (d digest) by(name func(place) string) (sums []count, spaces map[string]int) {
	at := map[string]*count{}
	spaces = map[string]int{}
	for _, c := range d.Places {
		n := name(c.place)
		sum := at[n]
		if sum == nil {
			sum = &count{place: place{Resource: n}}
			at[n] = sum
		}
		sum.Keys, sum.Bytes, sum.Leased = sum.Keys+c.Keys, sum.Bytes+c.Bytes, sum.Leased+c.Leased
		if c.Namespace != "" {
			spaces[n]++
		}
	}
	for _, c := range at {
		sums = append(sums, *c)
	}
	slices.SortFunc(sums, larger)
	return sums, spaces
}

// largestPlaces is how many of them are shown to people.
const largestPlaces = 10

func (d digest) write(w io.Writer) error {
	s := d.Summary
	compacted := "nothing was compacted"
	if s.Compacted > 0 {
		compacted = fmt.Sprintf("history from %d on", s.Compacted)
	}
	_, err := fmt.Fprintf(w,
		"revision %d, %s; %d keys, %d entries of history, %d leases; %s, %s of it keys and values\n\n",
		s.Revision, compacted, s.Keys, s.Changes, s.Leases, render.Bytes(s.Size), render.Bytes(s.Bytes))
	if err != nil {
		return err
	}
	resources, spaces := d.by(func(p place) string { return p.Resource })
	table := [][]string{{"RESOURCE", "NAMESPACES", "KEYS", "WITH LEASE", "SIZE", "SHARE"}}
	for _, c := range resources {
		table = append(table, []string{
			c.Resource, fmt.Sprint(spaces[c.Resource]), fmt.Sprint(c.Keys), fmt.Sprint(c.Leased), render.Bytes(c.Bytes),
			share(c.Bytes, s.Bytes),
		})
	}
	if err := cli.Rows(w, table...); err != nil {
		return err
	}
	table = [][]string{{"NAMESPACE", "KEYS", "SIZE", "SHARE"}}
	namespaces, _ := d.by(func(p place) string { return cmp.Or(p.Namespace, "(none)") })
	for _, c := range namespaces {
		table = append(table, []string{c.Resource, fmt.Sprint(c.Keys), render.Bytes(c.Bytes), share(c.Bytes, s.Bytes)})
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := cli.Rows(w, table...); err != nil {
		return err
	}
	table = [][]string{{"LARGEST", "IN NAMESPACE", "KEYS", "SIZE", "SHARE"}}
	for _, c := range d.Places[:min(len(d.Places), largestPlaces)] {
		table = append(table, []string{
			c.Resource, cmp.Or(c.Namespace, "(none)"), fmt.Sprint(c.Keys), render.Bytes(c.Bytes), share(c.Bytes, s.Bytes),
		})
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return cli.Rows(w, table...)
}

func share(part, all int64) string {
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(all))
}
