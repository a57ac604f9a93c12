package storetest

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// Content returns a reader of n bytes that are always the same, and do not
// repeat.
func Content(n int64) io.Reader {
	// The race detector watches each step of math/rand, and none of the key stream of AES.
	block, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		panic(err) // the key has a size that there is
	}
	stream := cipher.NewCTR(block, make([]byte, aes.BlockSize))
	return io.LimitReader(readerFunc(func(p []byte) (int, error) {
		clear(p)
		stream.XORKeyStream(p, p)
		return len(p), nil
	}), n)
}

func digestOf(t *testing.T, r io.Reader) string {
	t.Helper()
	sum := sha256.New()
	n, err := io.Copy(sum, r)
	must(t, err)
	return fmt.Sprint(n, " bytes, ", hex.EncodeToString(sum.Sum(nil)))
}

// createRace lets eight writers at a time create one object, small and as a
// stream: one gets the answer that it did, and its content is there.
func createRace(t *testing.T, open func() *store.Store) {
	stores := []*store.Store{open(), open()}
	const rounds, racers = 10, 8
	for _, way := range []struct {
		name  string
		write func(s *store.Store, key, content string) (bool, error)
	}{
		{"create", func(s *store.Store, key, content string) (bool, error) {
			return s.Create(t.Context(), key, []byte(content))
		}},
		{"upload", func(s *store.Store, key, content string) (bool, error) {
			return s.Upload(t.Context(), key, strings.NewReader(content))
		}},
	} {
		for round := range rounds {
			key := fmt.Sprint(way.name, "/", round)
			made := make([]bool, racers)
			start := make(chan struct{})
			var group sync.WaitGroup
			for i := range racers {
				group.Go(func() {
					<-start
					var err error
					if made[i], err = way.write(stores[i%2], key, fmt.Sprint("racer-", i)); err != nil {
						t.Error(err)
					}
				})
			}
			close(start)
			group.Wait()
			winner := slices.Index(made, true)
			if winner < 0 || slices.Contains(made[winner+1:], true) {
				t.Fatalf("%s: winners are %v", key, made)
			}
			if got := get(t, stores[0], key); got != fmt.Sprint("racer-", winner) {
				t.Errorf("%s: racer %d won, and there is %q", key, winner, got)
			}
		}
	}
}

// largeUpload stores more than one part of any cloud's upload.
func largeUpload(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	for _, size := range []int64{
		0, 1, 64<<10 - 1, 64 << 10, 5<<20 - 1, 5 << 20, 5<<20 + 1, 8<<20 - 1, 8 << 20, 8<<20 + 1, 16 << 20, 68<<20 + 12345,
	} {
		key := fmt.Sprint("size/", size)
		if made, err := s.Upload(ctx, key, Content(size)); !made || err != nil {
			t.Fatalf("upload of %d bytes: %t, %v", size, made, err)
		}
		r, err := s.Open(ctx, key)
		must(t, err)
		if got, want := digestOf(t, r), digestOf(t, Content(size)); got != want {
			t.Errorf("stored %s, and got %s", want, got)
		}
		must(t, r.Close())
		if size > 9<<20 {
			continue
		}
		if made, err := s.Upload(ctx, key, Content(size+1)); made || err != nil {
			t.Errorf("uploaded %d bytes over a present object: %t, %v", size+1, made, err)
		}
	}
}

// brokenUpload: what breaks off in any part leaves nothing.
func brokenUpload(t *testing.T, open func() *store.Store) {
	s, ctx := open(), t.Context()
	lost := errors.New("connection lost")
	// A stream that ends in the middle fails with an error that readers of whole
	// parts also see at the end of one that is whole.
	_, err := s.Upload(ctx, "broken/object", io.MultiReader(Content(9<<20), iotest.ErrReader(io.ErrUnexpectedEOF)))
	is(t, err, io.ErrUnexpectedEOF)
	for _, size := range []int64{0, 1 << 10, 8 << 20, 8<<20 + 1, 20 << 20} {
		_, err := s.Upload(ctx, "broken/object", io.MultiReader(Content(size), iotest.ErrReader(lost)))
		is(t, err, lost)
		cancelled, cancel := context.WithCancel(ctx)
		_, err = s.Upload(cancelled, "broken/object", io.MultiReader(Content(size), readerFunc(func([]byte) (int, error) {
			cancel()
			return 0, nil
		}), Content(1<<20)))
		is(t, err, context.Canceled)
		if there, err := s.Exists(ctx, "broken/object"); there || err != nil {
			t.Errorf("after %d bytes that broke off there is an object: %t, %v", size, there, err)
		}
	}
	if made, err := s.Upload(ctx, "broken/object", Content(9<<20)); !made || err != nil {
		t.Errorf("after uploads that broke off: %t, %v", made, err)
	}
}

// manyObjects are more than two pages of a listing.
func manyObjects(t *testing.T, open func() *store.Store) {
	s := open()
	const count = 1250
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	var names []string
	for i := range count {
		name := retention.Name(at.Add(time.Duration(-i)*time.Hour), 1)
		names = append(names, name)
		group.Go(func() error {
			return errors.Join(s.Put(ctx, name+"/"+retention.DataFile, []byte("data")),
				s.Put(ctx, name+"/"+retention.MarkerFile, []byte("{}")))
		})
	}
	must(t, group.Wait())
	all, err := s.Backups(t.Context())
	must(t, err)
	var got []string
	for _, b := range all {
		got = append(got, b.Name)
		if b.Size != 4 {
			t.Fatalf("%+v", b)
		}
	}
	if !slices.Equal(got, names) {
		t.Errorf("of %d backups %d are listed", count, len(got))
	}
}
