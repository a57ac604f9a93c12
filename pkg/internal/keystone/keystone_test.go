package keystone

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/etcdadm/etcdadm/pkg/internal/keystone/keystonetest"
)

func clean(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OS_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("KOPS_OS_TLS_INSECURE_SKIP_VERIFY", "")
	t.Setenv("OPENSTACK_CREDENTIAL_FILE", "")
}

// asked are bodies of log-ins, which a server answers with a token.
func asked(t *testing.T, s Settings) string {
	t.Helper()
	body := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/identity/v3/auth/tokens" {
			t.Errorf("asked for %s", r.URL)
		}
		var in any
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		text, _ := json.Marshal(in)
		body = string(text)
		w.Header().Set("X-Subject-Token", "token")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"token": {}}`))
	}))
	defer server.Close()
	s.AuthURL = server.URL + "/identity/v3"
	if _, err := s.Login(t.Context()); err != nil {
		t.Error(err)
	}
	return body
}

// What the environment says is what Keystone is asked with.
func TestFromEnv(t *testing.T) {
	const user = `{"auth":{"identity":{"methods":["password"],"password":{"user":`
	for name, c := range map[string]struct{ env, want string }{
		"project by id": {
			"OS_USERNAME=u OS_PASSWORD=p OS_DOMAIN_NAME=d OS_PROJECT_ID=i OS_PROJECT_NAME=n",
			user + `{"domain":{"name":"d"},"name":"u","password":"p"}}},"scope":{"project":{"id":"i"}}}}`,
		},
		"tenant by name": {
			"OS_USERNAME=u OS_PASSWORD=p OS_DOMAIN_ID=d OS_TENANT_NAME=n",
			user + `{"domain":{"id":"d"},"name":"u","password":"p"}}},` +
				`"scope":{"project":{"domain":{"id":"d"},"name":"n"}}}}`,
		},
		"domains of their own": {
			"OS_USERNAME=u OS_PASSWORD=p OS_USER_DOMAIN_NAME=d OS_PROJECT_DOMAIN_NAME=e OS_PROJECT_NAME=n",
			user + `{"domain":{"name":"d"},"name":"u","password":"p"}}},` +
				`"scope":{"project":{"domain":{"name":"e"},"name":"n"}}}}`,
		},
		"no domain": {
			"OS_USERNAME=u OS_PASSWORD=p OS_PROJECT_NAME=n",
			user + `{"domain":{"name":"Default"},"name":"u","password":"p"}}},` +
				`"scope":{"project":{"domain":{"name":"Default"},"name":"n"}}}}`,
		},
		"user by id": {
			"OS_USER_ID=u OS_USERNAME=x OS_PASSWORD=p OS_PROJECT_ID=i",
			user + `{"id":"u","password":"p"}}},"scope":{"project":{"id":"i"}}}}`,
		},
		"application credential": {
			"OS_APPLICATION_CREDENTIAL_ID=c OS_APPLICATION_CREDENTIAL_SECRET=s OS_USERNAME=u OS_PASSWORD=p OS_PROJECT_ID=i",
			`{"auth":{"identity":{"application_credential":{"id":"c","secret":"s"},"methods":["application_credential"]}}}`,
		},
		"application credential by name": {
			"OS_APPLICATION_CREDENTIAL_NAME=c OS_APPLICATION_CREDENTIAL_SECRET=s OS_USERNAME=u OS_USER_DOMAIN_NAME=d",
			`{"auth":{"identity":{"application_credential":{"name":"c","secret":"s",` +
				`"user":{"domain":{"name":"d"},"name":"u"}},"methods":["application_credential"]}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			t.Setenv("OS_AUTH_URL", "https://keystone:5000/v3")
			for _, v := range strings.Fields(c.env) {
				key, value, _ := strings.Cut(v, "=")
				t.Setenv(key, value)
			}
			s, err := FromEnv()
			if err != nil {
				t.Fatal(err)
			}
			if got := asked(t, s); got != c.want {
				t.Errorf("asked with\n%s, want\n%s", got, c.want)
			}
		})
	}
}

func TestWhatCannotBe(t *testing.T) {
	for env, want := range map[string]string{
		"": "OS_AUTH_URL",
		"OS_AUTH_URL=keystone:5000 OS_USERNAME=u OS_PASSWORD=p":                "https://HOST:5000/v3",
		"OS_AUTH_URL=https://u:secret@keystone/v3 OS_USERNAME=u OS_PASSWORD=p": "cannot contain user",
		"OS_AUTH_URL=https://keystone/v3":                                      "neither a user",
		"OS_AUTH_URL=https://keystone/v3 OS_USERNAME=u":                        "no password",
		"OS_AUTH_URL=https://keystone/v3 OS_APPLICATION_CREDENTIAL_ID=i":       "no secret",
		"OS_AUTH_URL=https://k/ OS_APPLICATION_CREDENTIAL_NAME=n " +
			"OS_APPLICATION_CREDENTIAL_SECRET=s": "its user is needed",
	} {
		t.Run(want, func(t *testing.T) {
			clean(t)
			for _, v := range strings.Fields(env) {
				key, value, _ := strings.Cut(v, "=")
				t.Setenv(key, value)
			}
			_, err := FromEnv()
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret@") {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cloud.config")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFromFile(t *testing.T) {
	clean(t)
	s, err := FromFile(file(t, keystonetest.File("http://keystone")))
	want := Settings{
		AuthURL: "http://keystone/identity/v3", User: keystonetest.User, Password: keystonetest.Password,
		Region: keystonetest.Region, ProjectID: keystonetest.Project,
		UserDomain: Domain{Name: "Default"}, ProjectDomain: Domain{Name: "Default"},
	}
	if err != nil || s != want {
		t.Errorf("read\n%+v, %v, want\n%+v", s, err, want)
	}
	text := strings.Replace(keystonetest.File("http://keystone"), "az=false", "az=true", 1)
	if s, err := FromFile(file(t, "# a comment = none\n; password=x\n\n"+text)); err != nil || !s.IgnoreVolumeZone {
		t.Errorf("%+v, %v", s, err)
	}
	t.Setenv("KOPS_OS_TLS_INSECURE_SKIP_VERIFY", "true")
	if s, err := FromFile(file(t, text)); err != nil || !s.Insecure {
		t.Errorf("%+v, %v", s, err)
	}
	for text, want := range map[string]string{
		"[BlockStorage]\nignore-volume-az=hunter2\n": "ignore-volume-az is neither true nor false",
		"[Global]\nauth-url=https://k/v3\n":          "neither a user",
		"[other]\nauth-url=https://k/v3\n":           "https://HOST:5000/v3",
		strings.Repeat("x", 1<<17):                   "read",
	} {
		if s, err := FromFile(file(t, text)); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%.60q: %+v, %v, want %q", text, s, err, want)
		}
	}
	if _, err := FromFile(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// The environment comes first, then the file that it names, then those that are
// there.
func TestFind(t *testing.T) {
	clean(t)
	none := filepath.Join(t.TempDir(), "none")
	there := file(t, keystonetest.File("http://there"))
	check := func(want string, files ...string) {
		t.Helper()
		s, err := Find(files...)
		if s.AuthURL != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v, %v, want %q", s, err, want)
		}
	}
	check("OS_AUTH_URL does not say where Keystone is, and there is no "+none+" or x", none, "x")
	check("http://there/identity/v3", none, there)
	t.Setenv("OPENSTACK_CREDENTIAL_FILE", file(t, keystonetest.File("http://named")))
	check("http://named/identity/v3", none, there)
	t.Setenv("OPENSTACK_CREDENTIAL_FILE", none)
	check("none: no such file", there)
	t.Setenv("OS_AUTH_URL", "https://env")
	check("neither a user", there)
}

// A token that is too old is renewed, and the endpoint is that of the region.
func TestTokensAreRenewed(t *testing.T) {
	clean(t)
	keystone := &keystonetest.Server{T: t, Services: map[string]string{"object-store": "/swift/v1"}}
	mux := http.NewServeMux()
	mux.Handle("/identity/", keystone)
	mux.Handle("/swift/", keystone.Guarded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	server := httptest.NewServer(mux)
	defer server.Close()
	s, err := FromFile(file(t, keystonetest.File(server.URL)))
	if err != nil {
		t.Fatal(err)
	}
	client, err := s.Login(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	swift, err := openstack.NewObjectStorageV1(client, s.Endpoint())
	if err != nil || swift.Endpoint != server.URL+"/swift/v1/" {
		t.Fatalf("%+v, %v", swift, err)
	}
	for range 2 {
		if _, err := swift.Get(t.Context(), swift.Endpoint, nil, nil); err != nil {
			t.Error(err)
		}
		keystone.Expire()
	}
	if keystone.Given() != 2 {
		t.Errorf("%d tokens were given, want 2", keystone.Given())
	}
	s.Password = "wrong SECRET"
	if _, err := s.Login(t.Context()); err == nil || !strings.Contains(err.Error(), "401") ||
		strings.Contains(err.Error(), "SECRET") {
		t.Errorf("%v", err)
	}
}

// A server whose certificate nobody knows is asked where the settings say so.
func TestCertificates(t *testing.T) {
	clean(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Subject-Token", "token")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"token": {}}`))
	}))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Settings)
		want   string
	}{
		"unknown":        {func(*Settings) {}, "certificate"},
		"known":          {func(s *Settings) { s.CACert = ca }, ""},
		"insecure":       {func(s *Settings) { s.Insecure = true }, ""},
		"no file":        {func(s *Settings) { s.CACert = ca + "x" }, "authorities of OpenStack"},
		"no certificate": {func(s *Settings) { s.CACert = file(t, "x") }, "has no certificate"},
	} {
		s := Settings{AuthURL: server.URL + "/v3", User: "u", Password: "p"}
		c.change(&s)
		_, err := s.Login(t.Context())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
