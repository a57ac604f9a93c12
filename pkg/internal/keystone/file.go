package keystone

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Path is where kops writes the credentials, in the host's file system.
const Path = "/etc/kubernetes/cloud.config"

// FromFile returns what a file says.
func FromFile(path string) (Settings, error) {
	f, err := os.Open(path)
	if err != nil {
		return Settings{}, fmt.Errorf("credentials of OpenStack: %w", err)
	}
	defer f.Close()
	s, err := read(f)
	if err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Find returns what the environment says. Where it does not say where Keystone
// is, that is the file that it names, or else the first of the files that are
// there.
func Find(files ...string) (Settings, error) {
	s, err := FromEnv()
	if s.AuthURL != "" {
		return s, err
	}
	if named := os.Getenv("OPENSTACK_CREDENTIAL_FILE"); named != "" {
		return FromFile(named)
	}
	for _, path := range files {
		if s, err := FromFile(path); !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
	}
	return s, fmt.Errorf("%w, and there is no %s", err, strings.Join(files, " or "))
}

// read reads a file of sections with lines KEY=VALUE. A value may stand between
// double quotes, in which nothing is escaped, not even a double quote. Keys that
// mean nothing here are left out.
func read(from io.Reader) (Settings, error) {
	var s Settings
	var tenant, domain Domain
	fields := map[string]map[string]*string{"global": {
		"auth-url": &s.AuthURL, "username": &s.User, "user-id": &s.UserID, "password": &s.Password, "region": &s.Region,
		"tenant-id": &s.ProjectID, "tenant-name": &s.ProjectName, "ca-file": &s.CACert,
		"domain-id": &domain.ID, "domain-name": &domain.Name,
		"tenant-domain-id": &tenant.ID, "tenant-domain-name": &tenant.Name,
		"application-credential-id": &s.CredentialID, "application-credential-name": &s.CredentialName,
		"application-credential-secret": &s.CredentialSecret,
	}}
	flags := map[string]map[string]*bool{
		"global": {"tls-insecure": &s.Insecure}, "blockstorage": {"ignore-volume-az": &s.IgnoreVolumeZone},
	}
	section := ""
	lines := bufio.NewScanner(io.LimitReader(from, 1<<20))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			section = strings.ToLower(strings.TrimSpace(line[1 : len(line)-1]))
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || line[0] == '#' || line[0] == ';' {
			continue
		}
		key, value = strings.ToLower(strings.TrimSpace(key)), unquote(strings.TrimSpace(value))
		if to := fields[section][key]; to != nil {
			*to = value
		}
		if to := flags[section][key]; to != nil && value != "" {
			// The value is not shown: the line may be another one than it was meant to be.
			yes, err := strconv.ParseBool(value)
			if err != nil {
				return s, fmt.Errorf("line %d: %s is neither true nor false", n, key)
			}
			*to = yes
		}
	}
	if err := lines.Err(); err != nil {
		return s, fmt.Errorf("read: %w", err)
	}
	s.UserDomain, s.ProjectDomain = domain, tenant.or(domain)
	return s.checked()
}

func unquote(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}
