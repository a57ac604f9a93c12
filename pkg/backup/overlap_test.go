package backup_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/backup"
)

// paced is a reader that takes some time for each MiB.
type paced struct {
	r       io.Reader
	perByte time.Duration
	debt    time.Duration
}

func (p *paced) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if p.debt += time.Duration(n) * p.perByte; p.debt > time.Millisecond {
		time.Sleep(p.debt)
		p.debt = 0
	}
	return n, err
}

// pacedStore is a store that takes its time, too.
type pacedStore struct {
	sink
	perByte time.Duration
}

func (s pacedStore) Upload(ctx context.Context, key string, r io.Reader) (bool, error) {
	return sink{}.Upload(ctx, key, &paced{r: r, perByte: s.perByte})
}

// What takes a second to read and a second to upload takes little more than a
// second, not two.
func TestReadingAndUploadingOverlap(t *testing.T) {
	content := make([]byte, 16<<20, 16<<20+sha256.Size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range content {
		content[i] = byte(r.Uint32())
	}
	sum := sha256.Sum256(content)
	content = append(content, sum[:]...)
	for _, compression := range []string{backup.Gzip, backup.Zstd} {
		synctest.Test(t, func(t *testing.T) {
			const perByte = 60 * time.Nanosecond
			began := time.Now()
			_, err := backup.Take(t.Context(), backup.TakeOptions{
				Source: stream(&paced{r: bytes.NewReader(content), perByte: perByte}), Store: pacedStore{perByte: perByte},
				Info: info(), Compression: compression,
			})
			one := time.Duration(len(content)) * perByte
			if took := time.Since(began); err != nil || took > one*13/10 {
				t.Errorf("%s: reading takes %s, uploading as long, and both took %s (%v)", compression, one, took, err)
			}
		})
	}
}
