//go:build e2e

package kind

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// followed are the resources that informers follow, each in one namespace.
var followed = map[schema.GroupVersionResource]string{
	{Version: "v1", Resource: "configmaps"}:                           "default",
	{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}: "kube-node-lease",
	{Version: "v1", Resource: "nodes"}:                                "",
}

// A follower is an informer of client-go's, of one resource at one API server.
type follower struct {
	what     string
	resource string
	informer cache.SharedIndexInformer
	client   dynamic.ResourceInterface
	lists    atomic.Int64 // how often it read everything
	deleted  atomic.Int64 // how many objects it has seen go
	// The last version of the whole collection, and how often it read everything, before a restore.
	version, listed int64

	mu    sync.Mutex
	seen  int64   // the highest version that it received
	back  []error // what it received that is older
	ended []error // why watches ended, since a restore began
}

// follow starts informers of all followed resources at all API servers.
func (c *Cluster) follow(t *testing.T) []*follower {
	t.Helper()
	_, ca, cert, key := c.access(t)
	var all []*follower
	for _, m := range c.machines {
		client, err := dynamic.NewForConfig(&rest.Config{
			Host:            "https://" + m.address(t) + ":6443",
			TLSClientConfig: rest.TLSClientConfig{CAData: ca, CertData: cert, KeyData: key},
		})
		if err != nil {
			t.Fatal(err)
		}
		for gvr, namespace := range followed {
			f := &follower{what: gvr.Resource + " at " + string(m), resource: gvr.Resource, client: client.Resource(gvr)}
			if namespace != "" {
				f.client = client.Resource(gvr).Namespace(namespace)
			}
			f.start(t)
			all = append(all, f)
		}
	}
	for _, f := range all {
		await(t, "the informer of "+f.what, time.Minute, func(context.Context) error {
			if !f.informer.HasSynced() {
				return errors.New("not yet")
			}
			return nil
		})
	}
	return all
}

// start runs the informer until the test ends.
func (f *follower) start(t *testing.T) {
	t.Helper()
	f.informer = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o v1.ListOptions) (runtime.Object, error) {
			list, err := f.client.List(ctx, o)
			if err == nil {
				f.lists.Add(1)
				f.received("a list", list.GetResourceVersion())
			}
			return list, err
		},
		WatchFuncWithContext: f.watch,
	}, &unstructured.Unstructured{}, 0, nil)
	if _, err := f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(any) { f.deleted.Add(1) },
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-over
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, err := range f.back {
			t.Errorf("the informer of %s: %v", f.what, err)
		}
	})
	go func() { defer close(over); f.informer.RunWithContext(ctx) }()
}

// watch starts a watch, and notes its versions and why it ends.
func (f *follower) watch(ctx context.Context, o v1.ListOptions) (watch.Interface, error) {
	f.received("a watch from", o.ResourceVersion)
	w, err := f.client.Watch(ctx, o)
	if err != nil {
		f.ends(err)
		return nil, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		if e.Type == watch.Error {
			f.ends(apierrors.FromObject(e.Object))
		} else if o, ok := e.Object.(*unstructured.Unstructured); ok {
			f.received(fmt.Sprintf("%s %s", e.Type, o.GetName()), o.GetResourceVersion())
		}
		return e, true
	}), nil
}

// received notes a version that the informer received: that of a list, or of a change. None is below one
// before it. Objects in a list that follows a restore may be older than they were: those that
// were changed after the backup.
func (f *follower) received(what, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := strconv.ParseInt(version, 10, 64)
	if err == nil && n < f.seen {
		err = fmt.Errorf("it received the version %d by %s, and %d before", n, what, f.seen)
	}
	if err != nil {
		f.back = append(f.back, err)
	}
	f.seen = max(f.seen, n)
}

// ends notes why a watch ended.
func (f *follower) ends(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = append(f.ended, err)
}

// expired reports whether an API server said that the version of a watch is compacted (410).
func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// tooOld asks for what followed the version before the restore, which no watch can send any more.
func (f *follower) tooOld(ctx context.Context) error {
	w, err := f.client.Watch(ctx, v1.ListOptions{ResourceVersion: strconv.FormatInt(f.version, 10)})
	if expired(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer w.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("a watch from version %d waits: %w", f.version, ctx.Err())
	case e := <-w.ResultChan():
		if e.Type == watch.Error && expired(apierrors.FromObject(e.Object)) {
			return nil
		}
		return fmt.Errorf("a watch from version %d begins with %s %v", f.version, e.Type, e.Object)
	}
}

// at returns the version of the collection that the informer has.
func (f *follower) at(t *testing.T) int64 {
	t.Helper()
	n, err := strconv.ParseInt(f.informer.LastSyncResourceVersion(), 10, 64)
	if err != nil {
		t.Fatalf("the informer of %s: %v", f.what, err)
	}
	return n
}

// hasFollowed makes sure that the informer was notified that what it knew is compacted, has read everything
// again since the restore, at a version above all that it has seen, and holds what the API server has.
func (f *follower) hasFollowed(t *testing.T) {
	t.Helper()
	await(t, "the informer of "+f.what+" has read everything again", 2*time.Minute, func(ctx context.Context) error {
		if f.lists.Load() == f.listed {
			return errors.New("it has not")
		}
		if v := f.at(t); v < f.version+1_000_000_000 {
			t.Fatalf("the informer of %s was at %d, and is at %d", f.what, f.version, v)
		}
		list, err := f.client.List(ctx, v1.ListOptions{})
		if err != nil {
			return err
		}
		return f.holds(list)
	})
	f.mu.Lock()
	ended := slices.Clone(f.ended)
	f.mu.Unlock()
	if !slices.ContainsFunc(ended, expired) {
		t.Errorf("no watch of the informer of %s has expired; they ended with %v", f.what, ended)
	}
	await(t, "a watch of "+f.what+" from before the restore expires", time.Minute, f.tooOld)
}

// holds compares what the informer has with a list. What is younger than the list does not count.
func (f *follower) holds(list *unstructured.UnstructuredList) error {
	listed, err := strconv.ParseInt(list.GetResourceVersion(), 10, 64)
	if err != nil {
		return err
	}
	there := map[string]string{}
	for _, o := range list.Items {
		there[o.GetName()] = o.GetResourceVersion()
	}
	for _, o := range f.informer.GetStore().List() {
		held := o.(*unstructured.Unstructured)
		version, err := strconv.ParseInt(held.GetResourceVersion(), 10, 64)
		if err != nil {
			return err
		}
		if version > listed {
			delete(there, held.GetName())
			continue
		}
		if there[held.GetName()] != held.GetResourceVersion() {
			return fmt.Errorf("it has %s at %s, the API server at %q", held.GetName(), held.GetResourceVersion(),
				there[held.GetName()])
		}
		delete(there, held.GetName())
	}
	if len(there) > 0 {
		return fmt.Errorf("it lacks %v", there)
	}
	return nil
}

// noted remembers where the informers are before a restore.
func noted(t *testing.T, all []*follower) {
	t.Helper()
	for _, f := range all {
		f.version, f.listed = f.at(t), f.lists.Load()
		f.mu.Lock()
		f.ended = nil
		f.mu.Unlock()
	}
}

// nodesLive makes sure that every kubelet renews the lease of its node, and that no node and no
// lease was taken away.
func nodesLive(t *testing.T, all []*follower) {
	t.Helper()
	since := time.Now()
	for _, f := range all {
		if n := f.deleted.Load(); n > 0 && f.resource != "configmaps" {
			t.Errorf("the informer of %s has seen %d of them go", f.what, n)
		}
	}
	await(t, "all nodes renew their leases", time.Minute, func(context.Context) error {
		for _, f := range all {
			if f.resource != "leases" {
				continue
			}
			for _, o := range f.informer.GetStore().List() {
				if err := renewed(o.(*unstructured.Unstructured), since); err != nil {
					return fmt.Errorf("%s: %w", f.what, err)
				}
			}
		}
		return nil
	})
}

// renewed returns an error unless a lease was renewed after a time.
func renewed(lease *unstructured.Unstructured, since time.Time) error {
	text, _, err := unstructured.NestedString(lease.Object, "spec", "renewTime")
	if err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return fmt.Errorf("the lease %s: %w", lease.GetName(), err)
	}
	if at.Before(since) {
		return fmt.Errorf("the lease %s was renewed last at %s", lease.GetName(), text)
	}
	return nil
}
