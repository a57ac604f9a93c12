// Package keystonetest is a Keystone for tests: it gives tokens to who knows a
// password, says where the other services are, and lets tokens expire.
package keystonetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// What this Keystone knows. The password has what a file does not escape.
const (
	User     = "kops"
	Password = `a "quoted" \ pass#word;`
	Project  = "project-1"
	Region   = "region-1"
)

// A Server is the service, and asks for a token on behalf of the others.
type Server struct {
	// T receives what nobody should ask.
	T interface {
		Errorf(format string, args ...any)
	}
	// Services are the paths of the other services by their type, as block-storage.
	Services map[string]string
	// Busy says that a call is refused as one too many; nil for never.
	Busy func() bool

	lock sync.Mutex
	// given is the number of tokens that were given, of which so many expired.
	given, expired int
	// lost says that whoever is in front of it does not find it.
	lost bool
}

// Lose makes it answer as a load balancer does that finds it no more, or ends that.
func (s *Server) Lose(lost bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.lost = lost
}

// Expire makes all tokens invalid.
func (s *Server) Expire() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.expired = s.given
}

// Given returns how many tokens were given.
func (s *Server) Given() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.given
}

// Guarded returns a handler that demands a token.
func (s *Server) Guarded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.lock.Lock()
		text, ok := strings.CutPrefix(r.Header.Get("X-Auth-Token"), "token-")
		number, err := strconv.Atoi(text)
		valid := ok && err == nil && number > s.expired && number <= s.given
		s.lock.Unlock()
		switch {
		case !valid:
			w.WriteHeader(http.StatusUnauthorized)
		case s.busy(w):
		default:
			h.ServeHTTP(w, r)
		}
	})
}

func (s *Server) busy(w http.ResponseWriter) bool {
	if s.Busy == nil || !s.Busy() {
		return false
	}
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusTooManyRequests)
	return true
}

type object = map[string]any

// ServeHTTP answers POST /v3/auth/tokens.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/v3/auth/tokens") {
		s.T.Errorf("Keystone is asked for %s %s", r.Method, r.URL)
		w.WriteHeader(http.StatusNotFound)
		return
	}
	s.lock.Lock()
	lost := s.lost
	s.lock.Unlock()
	if lost {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if s.busy(w) {
		return
	}
	type named struct{ ID, Name string }
	type owned struct {
		named
		Domain named
	}
	var in struct {
		Auth struct {
			Identity struct {
				Methods  []string
				Password struct {
					User struct {
						owned
						Password string
					}
				}
			}
			Scope struct{ Project owned }
		}
	}
	err := json.NewDecoder(r.Body).Decode(&in)
	u, p := in.Auth.Identity.Password.User, in.Auth.Scope.Project
	if err != nil || u.Name != User || u.Domain.Name != "Default" || u.Password != Password || p.ID != Project {
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(object{"error": object{"message": "wrong user or password"}})
		return
	}
	s.lock.Lock()
	s.given++
	w.Header().Set("X-Subject-Token", fmt.Sprint("token-", s.given))
	s.lock.Unlock()
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(object{"token": object{
		"methods": []string{"password"}, "catalog": s.catalog(r), "expires_at": "2099-01-01T00:00:00.000000Z",
		"project": object{"id": Project, "name": "project", "domain": object{"id": "default", "name": "Default"}},
	}})
}

// catalog lists the services, each in two regions and at two interfaces: one of these is right.
func (s *Server) catalog(r *http.Request) []any {
	var catalog []any
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	for kind, path := range s.Services {
		at := scheme + "://" + r.Host + path
		catalog = append(catalog, object{"type": kind, "name": kind, "endpoints": []any{
			object{"interface": "public", "region": "region-0", "region_id": "region-0", "url": "http://127.0.0.1:1/v2.1"},
			object{"interface": "internal", "region": Region, "region_id": Region, "url": "http://127.0.0.1:1/v2.1"},
			object{"interface": "public", "region": Region, "region_id": Region, "url": at},
		}})
	}
	return catalog
}

// File is a file of credentials for a Keystone at an address, as kops writes it.
func File(url string) string {
	return fmt.Sprintf(`[global]
auth-url="%s/identity/v3"
username="%s"
password="%s"
region="%s"
tenant-id="%s"
tenant-name=""
domain-name="Default"
domain-id=""
application-credential-id=""
application-credential-secret=""

[LoadBalancer]
floating-network-id="x"
use-octavia=true

[BlockStorage]
bs-version=v3
ignore-volume-az=false

[Networking]
public-network-name="one"
public-network-name="two"
password="none of ours"
`, url, User, Password, Region, Project)
}
