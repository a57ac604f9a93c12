package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdrelease"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// releaseCheckInterval is the time between two checks whether releases of etcd are missing.
const releaseCheckInterval = 2 * time.Second

// releaseRoom is the free space that is left below the data directory when a release is
// fetched: the member needs it more. The release itself takes part of it.
const releaseRoom = 512 << 20

// releases returns where fetched binaries are. What was fetched once is found also when
// nothing is fetched any more: a member may run it.
func (c Config) releases() string { return filepath.Join(c.DataDir, "releases") }

// fetchReleases gets the releases of etcd that this node lacks, until ctx ends.
func (d *Daemon) fetchReleases(ctx context.Context) {
	if _, err := d.c.releaseDigests(); err != nil {
		// The member runs without it. Reported now, it is put right before a version is missing.
		d.log.Warn("no etcd can be fetched", "error", err)
	}
	tick := time.NewTicker(releaseCheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r := d.reportedLast(ctx)
		if r.Spec.EtcdVersion.IsZero() {
			r.Spec = d.spec() // nobody coordinates yet
		}
		n, _ := d.node.local.Observe(ctx)
		d.node.local.Fetch(ctx, plan.Releases(r.Spec, r.Observation, n))
	}
}

// reportedLast returns what the coordinator published last, the zero Report where there is
// none.
func (d *Daemon) reportedLast(ctx context.Context) (r reconcile.Report) {
	ctx, cancel := context.WithTimeout(ctx, previousTimeout)
	defer cancel()
	if b, err := d.store.Status(ctx); err != nil || json.Unmarshal(b, &r) != nil {
		return reconcile.Report{}
	}
	return r
}

// fetchRelease gets a release, so that it is found from then on. The archive is compared
// with its digest, and the binaries are run, before they have their name.
func (d *Daemon) fetchRelease(ctx context.Context, v etcdversion.Version) error {
	d.log.Info("etcd is fetched", "version", v, "from", shownRelease(d.c.Release))
	err := d.installRelease(ctx, v)
	if err != nil && ctx.Err() == nil {
		d.log.Warn("etcd cannot be fetched", "version", v, "error", err)
	}
	return err
}

func (d *Daemon) installRelease(ctx context.Context, v etcdversion.Version) error {
	if free, err := hostfs.FreeBytes(d.c.DataDir); err == nil && free < releaseRoom {
		return fmt.Errorf("%s has %d MiB free, and %d MiB are needed", d.c.DataDir, free>>20, releaseRoom>>20)
	}
	digests, err := d.c.releaseDigests()
	if err != nil {
		return err
	}
	cache := filepath.Join(d.c.releases(), "cache")
	_, err = etcdrelease.Install(ctx, etcdrelease.Options{
		Version: v, Sources: machine.Binaries{ReleaseURL: d.c.Release}, CacheDir: cache,
		Digests: digests, DigestsFrom: d.c.ReleaseDigests,
	}, filepath.Join(d.c.releases(), "etcd-v"+v.String()))
	if err != nil {
		return withHint(err)
	}
	return os.RemoveAll(filepath.Join(cache, "etcd", "v"+v.String())) // what is installed is not fetched again
}

// withHint adds what to do about an error of a digest, which depends on whose digest it is.
func withHint(err error) error {
	var another *etcdrelease.ChecksumError
	var none *etcdrelease.NoChecksumError
	switch {
	case errors.As(err, &another):
		return fmt.Errorf("%w; %s", err, another.Hint())
	case errors.As(err, &none) && none.Digests:
		return fmt.Errorf("%w; %s", err, none.Hint())
	}
	return err
}

// releaseDigests returns the digests of archives that the operator believes in, "" for none.
func (c Config) releaseDigests() (string, error) {
	if c.ReleaseDigests == "" {
		return "", nil
	}
	b, err := os.ReadFile(c.ReleaseDigests)
	if err != nil {
		return "", fmt.Errorf("--etcd-release-digests: %w", err)
	}
	if err := etcdrelease.CheckDigests(string(b)); err != nil {
		return "", fmt.Errorf("--etcd-release-digests %s: %w", c.ReleaseDigests, err)
	}
	return string(b), nil
}

// checkRelease reports why no releases can be fetched from a URL, nil for an empty one.
func checkRelease(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("--etcd-release: %w", err)
	case text == "" || u.Scheme == "file" || u.Scheme == "https" && u.Host != "":
	case u.Scheme == "http" && !machine.PlainHTTP(text):
	default:
		return fmt.Errorf("--etcd-release %q is not an https or file URL", shownRelease(text))
	}
	if strings.HasSuffix(u.Path, ".gz") {
		return fmt.Errorf("--etcd-release %q is one archive: give the part before /v3.6.16 in its URL", shownRelease(text))
	}
	return nil
}

// shownRelease is a URL without its password and query.
func shownRelease(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "the URL"
	}
	u.RawQuery = ""
	return u.Redacted()
}
