// Package keystone logs in to OpenStack, for its volumes and its object store:
// with what the environment says, or a file with the credentials of a cloud
// provider, as kops writes it.
package keystone

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
)

// Settings say where an OpenStack is and who asks it.
type Settings struct {
	AuthURL string
	// Region is that of the services, "" for the first one of the catalogue.
	Region string
	// User and Password, or an application credential, which comes first.
	UserID, User, Password                         string
	CredentialID, CredentialName, CredentialSecret string
	// ProjectID or ProjectName is what the token is for.
	ProjectID, ProjectName string
	// UserDomain is the user's domain, ProjectDomain that of the project.
	UserDomain, ProjectDomain Domain
	// CACert is a file of authorities that servers may have certificates of.
	CACert string
	// Insecure lets certificates of servers be unchecked.
	Insecure bool
	// IgnoreVolumeZone lets volumes of other zones be attached.
	IgnoreVolumeZone bool
}

// A Domain is known by its id or its name.
type Domain struct{ ID, Name string }

func (d Domain) or(e Domain) Domain {
	if d == (Domain{}) {
		return e
	}
	return d
}

// FromEnv returns what the variables OS_... say.
func FromEnv() (Settings, error) {
	get := os.Getenv
	both := Domain{ID: get("OS_DOMAIN_ID"), Name: get("OS_DOMAIN_NAME")}
	s := Settings{
		AuthURL: get("OS_AUTH_URL"), Region: get("OS_REGION_NAME"), CACert: get("OS_CACERT"),
		UserID: cmp.Or(get("OS_USER_ID"), get("OS_USERID")), User: get("OS_USERNAME"), Password: get("OS_PASSWORD"),
		CredentialID: get("OS_APPLICATION_CREDENTIAL_ID"), CredentialName: get("OS_APPLICATION_CREDENTIAL_NAME"),
		CredentialSecret: get("OS_APPLICATION_CREDENTIAL_SECRET"),
		ProjectID:        cmp.Or(get("OS_PROJECT_ID"), get("OS_TENANT_ID")),
		ProjectName:      cmp.Or(get("OS_PROJECT_NAME"), get("OS_TENANT_NAME")),
		UserDomain:       Domain{ID: get("OS_USER_DOMAIN_ID"), Name: get("OS_USER_DOMAIN_NAME")}.or(both),
		ProjectDomain:    Domain{ID: get("OS_PROJECT_DOMAIN_ID"), Name: get("OS_PROJECT_DOMAIN_NAME")}.or(both),
	}
	if s.AuthURL == "" {
		return s, errors.New("the variable OS_AUTH_URL does not say where Keystone is")
	}
	return s.checked()
}

// checked returns the settings with what holds for all sources of them, or says
// what is missing.
func (s Settings) checked() (Settings, error) {
	// The variable is kops'. What cannot be read means no.
	skip, _ := strconv.ParseBool(os.Getenv("KOPS_OS_TLS_INSECURE_SKIP_VERIFY"))
	s.Insecure = s.Insecure || skip
	u, err := url.Parse(s.AuthURL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return s, errors.New("the URL of Keystone is not like https://HOST:5000/v3")
	case u.User != nil:
		return s, errors.New("the URL of Keystone cannot contain user and password")
	case s.CredentialID != "" || s.CredentialName != "":
		if s.CredentialSecret == "" {
			return s, errors.New("the application credential has no secret")
		}
		if s.CredentialID == "" && s.UserID == "" && s.User == "" {
			return s, errors.New("the application credential has a name and no id, so its user is needed")
		}
	case s.UserID == "" && s.User == "":
		return s, errors.New("there is neither a user nor an application credential")
	case s.Password == "":
		return s, errors.New("the user has no password")
	}
	return s, nil
}

// options are those of the SDK.
func (s Settings) options() *gophercloud.AuthOptions {
	o := &gophercloud.AuthOptions{
		IdentityEndpoint: s.AuthURL, UserID: s.UserID, AllowReauth: true,
	}
	if s.UserID == "" && s.User != "" {
		o.Username, o.DomainID = s.User, s.UserDomain.ID
		if o.DomainID == "" {
			// That of who has none is Keystone's own.
			o.DomainName = cmp.Or(s.UserDomain.Name, "Default")
		}
	}
	if s.CredentialID != "" || s.CredentialName != "" {
		// It is for one project, and Keystone wants to hear no other word of it.
		o.ApplicationCredentialID, o.ApplicationCredentialSecret = s.CredentialID, s.CredentialSecret
		if s.CredentialID != "" {
			o.UserID, o.Username, o.DomainID, o.DomainName = "", "", "", ""
			return o
		}
		o.ApplicationCredentialName = s.CredentialName
		return o
	}
	o.Password = s.Password
	project := s.ProjectDomain.or(s.UserDomain)
	switch {
	case s.ProjectID != "":
		o.Scope = &gophercloud.AuthScope{ProjectID: s.ProjectID}
	case s.ProjectName != "" && project.ID != "":
		o.Scope = &gophercloud.AuthScope{ProjectName: s.ProjectName, DomainID: project.ID}
	case s.ProjectName != "":
		o.Scope = &gophercloud.AuthScope{ProjectName: s.ProjectName, DomainName: cmp.Or(project.Name, "Default")}
	}
	return o
}

// Endpoint says which endpoints of services are meant.
func (s Settings) Endpoint() gophercloud.EndpointOpts {
	return gophercloud.EndpointOpts{Region: s.Region}
}

// Login returns a client with a token, which it renews. Nothing is asked twice
// but what was refused because the token is too old.
func (s Settings) Login(ctx context.Context) (*gophercloud.ProviderClient, error) {
	// Not as the SDK asks which versions there are: version 3 is there for ten
	// years, and the older one gone.
	client, err := openstack.NewClient(s.AuthURL)
	if err != nil {
		return nil, fmt.Errorf("the URL of Keystone: %w", err)
	}
	transport, err := s.transport()
	if err != nil {
		return nil, err
	}
	client.HTTPClient = http.Client{Transport: transport}
	client.UserAgent.Prepend("etcdadm")
	if err := openstack.AuthenticateV3(ctx, client, s.options(), gophercloud.EndpointOpts{}); err != nil {
		transport.CloseIdleConnections()
		return nil, fmt.Errorf("log in to OpenStack: %w", err)
	}
	return client, nil
}

// transport bounds what a context may not bound: the SDK asks for some things
// without that of its caller.
func (s Settings) transport() (*http.Transport, error) {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: time.Minute, IdleConnTimeout: 90 * time.Second,
		MaxIdleConnsPerHost: 8, ForceAttemptHTTP2: true,
		// Objects come as they are stored.
		DisableCompression: true,
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: s.Insecure, // where the operator asks for it
		},
	}
	if s.CACert == "" {
		return t, nil
	}
	text, err := os.ReadFile(s.CACert)
	if err != nil {
		return nil, fmt.Errorf("authorities of OpenStack: %w", err)
	}
	t.TLSClientConfig.RootCAs = x509.NewCertPool()
	if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("authorities of OpenStack: %s has no certificate", s.CACert)
	}
	return t, nil
}
