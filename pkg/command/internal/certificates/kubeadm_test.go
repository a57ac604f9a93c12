package certificates

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }

func TestKubeadmConfig(t *testing.T) {
	got, err := KubeadmConfig([]string{
		"https://10.0.0.1:2379", "https://[fd00::1]:2379/", "https://etcd.example.com:2379", "https://10.0.0.1:2379",
	}, "1.34.1", KubeadmFiles{})
	want := `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.34.1
etcd:
  external:
    endpoints:
      - https://10.0.0.1:2379
      - https://[fd00::1]:2379
      - https://etcd.example.com:2379
    caFile: /etc/kubernetes/pki/etcd/ca.crt
    certFile: /etc/kubernetes/pki/apiserver-etcd-client.crt
    keyFile: /etc/kubernetes/pki/apiserver-etcd-client.key
`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	got, err = KubeadmConfig([]string{"https://10.0.0.1:2379"}, "", KubeadmFiles{CA: "/a", Cert: "/b: c", Key: "/d"})
	if err != nil || strings.Contains(string(got), "kubernetesVersion") ||
		!strings.Contains(string(got), "caFile: /a\n    certFile: '/b: c'\n    keyFile: /d\n") {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestKubernetesVersions(t *testing.T) {
	for version, want := range map[string]struct{ api, version string }{
		"":                {kubeadmAPI, ""},
		"v1.31.0":         {kubeadmAPI, "v1.31.0"},
		"1.30.9":          {kubeadmOldAPI, "v1.30.9"},
		"1.22.0":          {kubeadmOldAPI, "v1.22.0"},
		"v1.35.0-alpha.1": {kubeadmAPI, "v1.35.0-alpha.1"},
		"stable-1":        {kubeadmAPI, "stable-1"},
		"stable-1.29":     {kubeadmOldAPI, "stable-1.29"},
		"ci/latest":       {kubeadmAPI, "ci/latest"},
		"1.21.3":          {},
		"1.34":            {},
		"two":             {},
		"1.34.1; rm":      {},
	} {
		api, text, err := kubernetes(version)
		if api != want.api || text != want.version || (err == nil) != (want.api != "") {
			t.Errorf("%q: %s %s %v", version, api, text, err)
		}
	}
}

func TestKubeadmEndpointsAreChecked(t *testing.T) {
	for _, text := range []string{
		"", "10.0.0.1:2379", "http://10.0.0.1:2379", "https://10.0.0.1", "https://:2379", "https://a:0", "https://a:99999",
		"https://a:2379/x", "https://u:p@a:2379", "https://a:2379?x", "https://a:x", "https://[::1:2379",
	} {
		if got, err := KubeadmConfig([]string{text}, "", KubeadmFiles{}); err == nil {
			t.Errorf("%q gives\n%s", text, got)
		}
	}
	if _, err := KubeadmConfig(nil, "", KubeadmFiles{}); err == nil {
		t.Error("no endpoint is taken")
	}
}

// env writes an etcd.env and returns the flag that names its directory.
func env(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "etcd.env"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--environment-dir=" + dir
}

func TestKubeadmConfigCommand(t *testing.T) {
	s := made(t, "a", 0)
	do(t, words("kubeadm config --endpoints=https://10.0.0.1:2379,https://10.0.0.2:2379 --kubernetes-version=v1.30.1",
		s.Dir)...).
		want(t, 0, "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nkubernetesVersion: v1.30.1\n", "")
	do(t, words("kubeadm config --endpoints=10.0.0.1", s.Dir)...).want(t, 2, "", "does not begin with https://")
	do(t, words("kubeadm config --environment-dir="+t.TempDir(), s.Dir)...).want(t, 1, "",
		"hint: name the members: --endpoints=https://HOST:2379,...")
	do(t, words("kubeadm config", s.Dir, env(t, "ETCD_NAME=a\n"))...).want(t, 1, "", "has no ETCD_ADVERTISE_CLIENT_URLS")
	do(t, words("kubeadm config", s.Dir, env(t, "ETCD_NAME='a\n"))...).want(t, 1, "", "is not closed")

	// Nobody answers there: what the machine was started with is printed, and
	// that is said. The retired etcdadm did not put IPv6 addresses in brackets.
	for text, want := range map[string]string{
		"ETCD_NAME=a\nETCD_ADVERTISE_CLIENT_URLS=https://127.0.0.1:1\nETCD_INITIAL_CLUSTER=a=https://127.0.0.1:2,b=https://127.0.0.2:2,c=https://[::1]:2\n": "      - https://127.0.0.1:1\n      - https://127.0.0.2:1\n      - https://[::1]:1\n",

		"# comment\nETCD_ADVERTISE_CLIENT_URLS=https://127.0.0.1:1\n": "      - https://127.0.0.1:1\n    caFile",
	} {
		r := do(t, words("kubeadm config --timeout=1s", s.Dir, env(t, text))...)
		r.want(t, 0, want, "warning: the cluster does not answer")
	}
	// Without usable certificates nobody can be asked either.
	do(t, words("kubeadm config", t.TempDir(), env(t, "ETCD_ADVERTISE_CLIENT_URLS=https://127.0.0.1:1\n"))...).
		want(t, 0, "      - https://127.0.0.1:1\n", "no such file")
}

// unpack returns the files of an archive and their modes.
func unpack(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Typeflag != tar.TypeReg {
			t.Errorf("%+v", h)
		}
		files[h.Name+" "+os.FileMode(h.Mode).String()] = string(text)
	}
}

func TestBundle(t *testing.T) {
	s := made(t, "a", 0)
	want := map[string]string{}
	for name, from := range map[string]string{
		"etc/kubernetes/pki/etcd/ca.crt -rw-r--r--":               "ca.crt",
		"etc/kubernetes/pki/apiserver-etcd-client.crt -rw-r--r--": "apiserver-etcd-client.crt",
		"etc/kubernetes/pki/apiserver-etcd-client.key -rw-------": "apiserver-etcd-client.key",
	} {
		text, err := os.ReadFile(filepath.Join(s.Dir, from))
		if err != nil {
			t.Fatal(err)
		}
		want[name] = string(text)
	}
	check := func(what string, got map[string]string) {
		t.Helper()
		if len(got) != len(want) {
			t.Errorf("%s: %d files", what, len(got))
		}
		for name, text := range want {
			if got[name] != text {
				t.Errorf("%s: %s is %q", what, name, got[name])
			}
		}
	}
	out := filepath.Join(t.TempDir(), "x.tar.gz")
	do(t, words("kubeadm bundle --out="+out, s.Dir)...).want(t, 0, "", "there: tar xzf x.tar.gz -C /")
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	check("file", unpack(t, text))
	if st, err := os.Stat(out); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	r := do(t, words("kubeadm bundle --out=-", s.Dir)...)
	r.want(t, 0, "", "etcdadm kubeadm config prints")
	check("stdout", unpack(t, []byte(r.stdout)))
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "new") + "/"} {
		do(t, words("kubeadm bundle --out="+dir, s.Dir)...).want(t, 0, "", "rsync -a "+filepath.Clean(dir)+"/ HOST:/")
		got := map[string]string{}
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			info, ierr := d.Info()
			rel, rerr := filepath.Rel(dir, path)
			got[rel+" "+info.Mode().String()] = string(text)
			return errors.Join(err, ierr, rerr)
		})
		if err != nil {
			t.Fatal(err)
		}
		check(dir, got)
	}
}

func TestBundleFailures(t *testing.T) {
	for name, c := range map[string]struct {
		args   string
		change func(*testing.T, string)
		code   int
		err    string
		tip    string
	}{
		"no out": {code: 2, err: "--out is missing", tip: "--out="},
		"no directory": {args: "--out=-", change: func(t *testing.T, dir string) { os.RemoveAll(dir) }, code: 1,
			err: "no certificate in"},
		"no pair": {args: "--out=-", change: func(t *testing.T, dir string) {
			move(t, dir+"/apiserver-etcd-client.crt", dir+"/x")
		}, code: 1, err: "there is no ", tip: "init phase certificates"},
		"no key": {args: "--out=-", change: func(t *testing.T, dir string) {
			move(t, dir+"/apiserver-etcd-client.key", dir+"/x")
		}, code: 1, err: "but not its key",
			tip: "certs renew apiserver-etcd-client"},
		"no CA": {args: "--out=-", change: func(t *testing.T, dir string) {
			move(t, dir+"/ca.crt", dir+"/x")
			os.Remove(dir + "/ca.key")
		}, code: 1, err: "there is no "},
		"other CA": {args: "--out=-", change: func(t *testing.T, dir string) {
			copied(t, made(t, "b", 0).Dir, dir, "ca.crt", "ca.key")
		}, code: 1, err: "no CA in ca.crt has issued it"},
		"nowhere to go": {args: "--out=/nowhere/x.tar.gz", code: 1, err: "/nowhere/x.tar.gz"},
		"no tree":       {args: "--out=/proc/nothing/", code: 1, err: "create directory"},
	} {
		t.Run(name, func(t *testing.T) {
			s := made(t, "a", 0)
			if c.change != nil {
				c.change(t, s.Dir)
			}
			r := do(t, words("kubeadm bundle "+c.args, s.Dir)...)
			r.want(t, c.code, "", c.err)
			r.want(t, c.code, "", c.tip)
			if r.stdout != "" {
				t.Errorf("stdout %q", r.stdout)
			}
		})
	}
	s := made(t, "a", -1)
	do(t, words("kubeadm bundle --out=-", s.Dir)...).want(t, 1, "", "apiserver-etcd-client.crt expired on")
}
