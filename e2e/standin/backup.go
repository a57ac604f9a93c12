package standin

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/pkg/testing/existing"
)

// write writes a file of the store, and is killed at no half of one.
func write(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".tmp", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// backUp has a backup taken when it is time, and old ones pruned.
func (c *controller) backUp(ctx context.Context, v *view) {
	if time.Since(c.lastBackup) < c.m.o.interval {
		return
	}
	if err := c.forced(ctx, v); err != nil {
		log.Printf("back up: %v", err)
		return
	}
	c.lastBackup = time.Now()
	if time.Since(c.lastPrune) > time.Hour {
		c.lastPrune = time.Now()
		if err := prune(c.m.o.store, time.Now()); err != nil {
			log.Printf("prune: %v", err)
		}
	}
}

// forced has a member that is well take a backup.
func (c *controller) forced(ctx context.Context, v *view) error {
	for _, name := range v.configured() {
		if v.healthy[name] {
			return v.leader.Backup(ctx, name, *c.spec)
		}
	}
	return errors.New("no member is healthy")
}

// Backup takes a backup of the member.
func (m *machine) Backup(ctx context.Context, spec existing.Spec) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.runs() {
		return "", errors.New("etcd does not run")
	}
	m.backups++
	now := time.Now().UTC()
	name := fmt.Sprintf("%s-%06d", now.Format(time.RFC3339), m.backups)
	var snapshot strings.Builder
	zip := gzip.NewWriter(&snapshot)
	c := &controller{m: m}
	urls := m.own().Client
	if m.state.Quarantined {
		urls = m.own().QuarantineURLs
	}
	err := c.with(ctx, urls, func(ctx context.Context, client *clientv3.Client) error {
		r, err := client.Snapshot(ctx)
		if err == nil {
			_, err = io.Copy(zip, r)
			err = errors.Join(err, r.Close(), zip.Close())
		}
		return err
	})
	if err != nil {
		return "", err
	}
	meta, err := json.MarshalIndent(map[string]any{
		"etcdVersion": m.state.Version, "timestamp": strconv.FormatInt(now.Unix(), 10),
		"clusterSpec": map[string]any{"memberCount": spec.Count, "etcdVersion": spec.Version},
	}, "", "  ")
	if err != nil {
		return "", err
	}
	log.Printf("backup %s", name)
	dir := filepath.Join(m.o.store, name)
	return name, errors.Join(write(filepath.Join(dir, "etcd.backup.gz"), []byte(snapshot.String())),
		write(filepath.Join(dir, "_etcd_backup.meta"), meta))
}

// prune keeps all backups of the last hour, the first one of each hour of the last week,
// and the first one of each day of the last two years. What has no time in its name stays,
// and so do the directories.
func prune(store string, now time.Time) error {
	metas, err := filepath.Glob(filepath.Join(store, "*", "_etcd_backup.meta"))
	if err != nil {
		return err
	}
	slices.Sort(metas)
	kept := map[string]bool{}
	for _, meta := range metas {
		dir := filepath.Dir(meta)
		name, _, ok := strings.Cut(filepath.Base(dir), "Z-")
		if ok {
			name += "Z"
		}
		at, err := time.Parse(time.RFC3339, name)
		age := now.Sub(at)
		if err != nil || age < time.Hour {
			continue
		}
		slot := at.UTC().Format(time.DateOnly)
		if age < week {
			slot = at.UTC().Format("2006-01-02T15")
		}
		if kept[slot] || age >= 2*365*24*time.Hour {
			err := errors.Join(os.Remove(meta), os.Remove(filepath.Join(dir, "etcd.backup.gz")))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		kept[slot] = true
	}
	return nil
}

const week = 7 * 24 * time.Hour

// A specFile is a spec as the store has it.
type specFile struct {
	MemberCount int
	EtcdVersion string
}

func (f specFile) spec() existing.Spec {
	return existing.Spec{Count: f.MemberCount, Version: f.EtcdVersion}
}

// A command is a request to restore.
type command struct {
	path   string
	at     int64
	backup string
	spec   existing.Spec
}

func readCommands(store string) (list []command, err error) {
	paths, err := filepath.Glob(filepath.Join(store, "control", "*", "_command.json"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var f struct {
			Timestamp     int64 `json:"timestamp,string"`
			RestoreBackup struct {
				ClusterSpec specFile
				Backup      string
			}
		}
		if err == nil { // a field that it does not know is an error
			d := json.NewDecoder(bytes.NewReader(b))
			d.DisallowUnknownFields()
			err = d.Decode(&f)
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		spec := f.RestoreBackup.ClusterSpec.spec()
		list = append(list, command{path, f.Timestamp, f.RestoreBackup.Backup, spec})
	}
	slices.SortStableFunc(list, func(a, b command) int { return cmp.Compare(a.at, b.at) })
	return list, nil
}
