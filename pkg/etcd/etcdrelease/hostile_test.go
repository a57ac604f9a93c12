package etcdrelease

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// writeForEver writes for as long as somebody reads.
func writeForEver(w http.ResponseWriter) {
	for b := bytes.Repeat([]byte("{ "), 1<<15); ; {
		if _, err := w.Write(b); err != nil {
			return
		}
	}
}

// A registry that gives something else than what was asked for by its digest gets nothing
// installed, and cannot keep who asks busy.
func TestImageOfAHostileRegistry(t *testing.T) {
	s := newRegistry(t)
	img := imageOf(t, arch, layerOf(t, binaries("usr/local/bin/", "3.6.16")...))
	repository, digest := s.push(t, img)
	other, otherDigest := s.push(t, imageOf(t, arch, layerOf(t, binaries("usr/local/bin/", "3.5.1")...)))
	manifest, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	packed, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	unlike := bytes.Clone(layer)
	unlike[9] ^= 1 // the system in the header of gzip: what it unpacks to is the same
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(unlike) }))
	t.Cleanup(elsewhere.Close)
	ofLayer, ofConfig := manifest.Layers[0].Digest.String(), manifest.Config.Digest.String()
	for name, c := range map[string]struct {
		path   string // what the lie is about
		answer http.HandlerFunc
		word   string
	}{
		"another manifest": {digest.String(), func(w http.ResponseWriter, r *http.Request) {
			at := "http://" + strings.Replace(other, "/", "/v2/", 1) + "/manifests/" + otherDigest.String()
			http.Redirect(w, r, at, http.StatusFound)
		}, "digest"},
		"an endless manifest": {digest.String(), func(w http.ResponseWriter, _ *http.Request) { writeForEver(w) }, "exceed"},
		"another configuration": {ofConfig, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "%-*s", manifest.Config.Size, `{"os":"linux","architecture":"`+arch+`"}`)
		}, "verif"},
		"an endless configuration": {ofConfig, func(w http.ResponseWriter, _ *http.Request) { writeForEver(w) }, "verif"},
		"a layer that is cut off": {ofLayer, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(layer)))
			w.Write(layer[:len(layer)/2])
		}, "unexpected EOF"},
		"another layer that is elsewhere": {ofLayer, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		}, "verifying sha256 checksum"},
		"a layer that is a redirect to itself": {ofLayer, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, "redirects"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			s.first = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, c.path) {
					return false
				}
				asked.Add(1)
				c.answer(w, r)
				return true
			}
			dir := t.TempDir()
			_, err := Install(soon(t), fromImage(t, repository+"@"+digest.String()), dir)
			wantError(t, err, c.word)
			if got := listed(t, dir); len(got) != 0 || asked.Load() == 0 {
				t.Errorf("left behind: %q; asked %d times", got, asked.Load())
			}
		})
	}
	t.Run("a layer that goes on after its end", func(t *testing.T) {
		s.first = func(w http.ResponseWriter, r *http.Request) bool {
			lies := strings.HasSuffix(r.URL.Path, ofLayer)
			if lies {
				w.Write(layer)
				writeForEver(w)
			}
			return lies
		}
		mustInstall(t, fromImage(t, repository+"@"+digest.String()), t.TempDir())
	})
}

// A registry does not choose a file of this machine: opening one may wait forever.
func TestImageRegistryDoesNotNameFiles(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newRegistry(t)
	img := imageOf(t, arch, layerOf(t, binaries("usr/local/bin/", "3.6.16")...))
	repository, digest := s.push(t, img)
	s.first = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v2/" || r.Method != http.MethodGet {
			return false
		}
		http.Redirect(w, r, "file://"+pipe, http.StatusFound)
		return true
	}
	failed := make(chan error, 1)
	go func() {
		_, err := Install(soon(t), fromImage(t, repository+"@"+digest.String()), t.TempDir())
		failed <- err
	}()
	select {
	case err := <-failed:
		wantError(t, err, "file:")
	case <-time.After(testwait.Limit):
		t.Error("it opened the file")
		f, err := unix.Open(pipe, unix.O_WRONLY, 0) // which ends it
		if err == nil {
			unix.Close(f)
		}
		<-failed
	}
}
