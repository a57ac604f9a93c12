package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/e2e/stores/servers"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/store"
	_ "github.com/etcdadm/etcdadm/pkg/store/cloud" // s3://
)

const (
	retentionTitle = "retention over 100,000 backups"
	listingTitle   = "listing of 10,000 backups in S3"
)

// many measures what is done with very many backups.
func (b *bench) many(ctx context.Context, t harness.T) {
	r, l := strings.Contains(retentionTitle, b.only), strings.Contains(listingTitle, b.only)
	if r || l {
		fmt.Println("\n| what | median | - | - | - | target |")
		fmt.Println("| --- | --- | --- | --- | --- | --- |")
	}
	if r {
		b.retention()
	}
	if l {
		b.listing(ctx, t)
	}
}

// retention decides about backups of every quarter of an hour in three years.
func (b *bench) retention() {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	all := make([]cluster.Backup, 100_000)
	for i := range all {
		at := now.Add(-time.Duration(i) * 15 * time.Minute)
		all[i] = cluster.Backup{Name: retention.Name(at, 1), At: at, Size: 1 << 30}
	}
	var times []time.Duration
	var gone int
	for range b.rounds {
		began := time.Now()
		gone = len(retention.Expired(retention.Policy{}, now, all))
		times = append(times, time.Since(began))
	}
	row(fmt.Sprintf("%s, of which %d go", retentionTitle, gone), fmt.Sprintf("%.3f s", median(times).Seconds()), "1 s")
}

// listing lists the backups, each of four objects, and runs list-backups.
func (b *bench) listing(ctx context.Context, t harness.T) {
	s3, err := servers.RunS3(ctx, b.root(t))
	must(t, err)
	t.Cleanup(s3.Stop)
	for name, value := range s3.Environ() {
		must(t, os.Setenv(name, value))
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 10_000 {
		dir := filepath.Join(s3.Dir, s3.Bucket, "x", retention.Name(at.Add(time.Duration(i)*time.Minute), 1))
		must(t, os.MkdirAll(dir, 0o755))
		for _, file := range []string{
			retention.DataFile, retention.DescriptionFile, retention.MarkerFile, retention.VerifiedFile,
		} {
			must(t, os.WriteFile(filepath.Join(dir, file), []byte("{}"), 0o600))
		}
	}
	s, err := store.Open(ctx, s3.Location("x"))
	must(t, err)
	var times, whole []time.Duration
	var requests int64
	for range b.rounds {
		began, before := time.Now(), s.Requests()
		all, err := s.Backups(ctx)
		must(t, err)
		times, requests = append(times, time.Since(began)), s.Requests()-before
		if len(all) != 10_000 {
			t.Fatalf("it lists %d backups", len(all))
		}
		whole = append(whole, b.process(t, filepath.Join(b.bin, "etcd-manager-ctl"), "--backup-store="+s3.Location("x"),
			"list-backups").wall)
	}
	row(fmt.Sprintf("%s, each of 4 objects: %d requests", listingTitle, requests), short(median(times)),
		"bounded requests")
	row("the same by `etcd-manager-ctl list-backups`, from its start to its end", short(median(whole)), "-")
}
