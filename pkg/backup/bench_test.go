package backup_test

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/backup"
)

// sink is a store that keeps nothing.
type sink struct{}

func (sink) Exists(context.Context, string) (bool, error) { return false, nil }
func (sink) Delete(context.Context, string) error         { return nil }
func (sink) Create(context.Context, string, []byte) (bool, error) {
	return true, nil
}

func (sink) Upload(_ context.Context, _ string, r io.Reader) (bool, error) {
	_, err := io.Copy(io.Discard, r)
	return err == nil, err
}

// BenchmarkTake reads the snapshot file that ETCDADM_BENCH_SNAPSHOT names: what
// a backup costs without etcd and without a store.
func BenchmarkTake(b *testing.B) {
	path := os.Getenv("ETCDADM_BENCH_SNAPSHOT")
	if path == "" {
		b.Skip("ETCDADM_BENCH_SNAPSHOT names no snapshot file")
	}
	st, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	key := identity(b)
	for _, form := range []struct {
		name, compression string
		to                []backup.Recipient
	}{{"gzip", backup.Gzip, nil}, {"zstd", backup.Zstd, nil}, {"gzip-age", backup.Gzip, key.to}, {
		"zstd-age", backup.Zstd, key.to,
	}} {
		b.Run(form.name, func(b *testing.B) {
			b.SetBytes(st.Size())
			var size int64
			for b.Loop() {
				got, err := backup.Take(b.Context(), backup.TakeOptions{
					Source: source(func(context.Context) (io.ReadCloser, error) { return os.Open(path) }),
					Store:  sink{}, Info: info(), Compression: form.compression, Recipients: form.to,
				})
				if err != nil {
					b.Fatal(err)
				}
				size = got.Size
			}
			b.ReportMetric(float64(st.Size())/float64(size), "ratio")
		})
	}
}
