package etcdrelease

import (
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// A mirror that is asked over plain http by a name is another machine, for all
// that anybody knows: without leave it is not asked, and its checksums count for
// nothing.
func TestPlainHTTPProvesNothing(t *testing.T) {
	o := Options{Version: etcdversion.Must("3.6.16"), CacheDir: t.TempDir(), pins: "# none\n", Sources: machine.Binaries{
		ReleaseURL: "http://mirror.example.com/etcd",
	}}
	_, _, err := Download(soon(t), o)
	wantError(t, err, "plain http")
	wantHint(t, err, "https", "--allow-http", "--binaries-sha256")
	o.Sources.AllowHTTP = true
	if o, err = o.complete(); err != nil {
		t.Fatal(err)
	}
	places, err := o.candidates()
	if err != nil || len(places) == 0 {
		t.Fatalf("%v, %v", places, err)
	}
	// There is no web to ask.
	if want, from, err := o.published(t.Context(), nil, places[0], map[string]string{}); want != "" || from != "" ||
		err != nil {
		t.Errorf("it is to have the digest %q, says %q, %v", want, from, err)
	}
	none := &NoChecksumError{URL: places[0].url, Plain: true}
	wantError(t, none, "proves nothing")
	wantHint(t, none, "--binaries-sha256")
	o.Sources.SHA256 = strings.Repeat("a", 64)
	if want, from, err := o.published(t.Context(), nil, places[0], map[string]string{}); want != o.Sources.SHA256 ||
		from != "--binaries-sha256" || err != nil {
		t.Errorf("it is to have the digest %q, says %q, %v", want, from, err)
	}
	for text, want := range map[string]bool{
		"http://mirror/x": true, "http://10.0.0.1:80/x": true, "https://mirror/x": false,
		"http://127.0.0.1:8080/x": false, "http://[::1]/x": false, "http://localhost/x": false, "file:///x": false,
	} {
		if got := machine.PlainHTTP(text); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}
