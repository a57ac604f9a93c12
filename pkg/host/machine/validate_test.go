package machine

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

func TestWhatIsFine(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"defaults":            func(*Config) {},
		"nothing":             func(c *Config) { *c = Config{} },
		"default route":       func(c *Config) { c.Listen.Address = "0.0.0.0" },
		"default route, IPv6": func(c *Config) { c.Listen.Address = "::" },
		"IPv6":                func(c *Config) { c.Listen.Address = "fd00::1" },
		"capitals in a name":  func(c *Config) { c.Name = "Node_1" },
		"vendor's version":    func(c *Config) { c.Version = etcdversion.Must("3.5.8-eks-1-26-16") },
		"names": func(c *Config) {
			c.Certificates.ServerSANs = []string{"etcd", "Node_1.example.com", "*.example.com", "10.0.0.1", "fd00::1", "a.b."}
		},
		"relative manifests": func(c *Config) { c.Paths.Manifests = "./manifests" },
		"archive itself":     func(c *Config) { c.Binaries.ReleaseURL = "https://x/etcd.tar.gz" },
		"relative archive":   func(c *Config) { c.Binaries.Archive = "etcd.tar.gz" },
		"checksum":           func(c *Config) { c.Binaries.SHA256 = strings.Repeat("0aF9", 16) },
		"image":              func(c *Config) { c.Binaries.Image = "r/etcd@sha256:" + strings.Repeat("a", 64) },
		"priorities":         func(c *Config) { c.Service.Priorities = []string{"CPUWeight=900", ""} },
		"number as user":     func(c *Config) { c.Service.User, c.Service.Group = "1000", "etcd" },
		"ciphers":            func(c *Config) { c.Etcd.CipherSuites = []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"} },
		"environment": func(c *Config) {
			c.Etcd.Environment = map[string]string{"GOGC": "50", "ETCD_METRICS": "extensive"}
		},
		"metrics in plain": func(c *Config) {
			c.Listen.MetricsURLs = []string{"http://127.0.0.1:2381", "https://[::]:2381"}
		},
		"bound to other names": func(c *Config) { c.Listen.ClientURLs = []string{"https://localhost:2379"} },
		"pod":                  func(c *Config) { c.Service.CPU, c.Service.Memory = "0.5", "1Gi" },
	} {
		c := Defaults()
		edit(&c)
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		path, text string
		edit       func(*Config)
	}{
		{"name", "character ' '", func(c *Config) { c.Name = "a b" }},
		{"version", "but etcdadm supports etcd 3, from 3.4 on; choose one such as 3.", func(c *Config) { c.Version = etcdversion.Must("3.3.27") }},
		{"listen.address", "not an IP address", func(c *Config) { c.Listen.Address = "localhost" }},
		{"listen.address", "not an IP address", func(c *Config) { c.Listen.Address = "[fd00::1]" }},
		{"listen.address", "one interface only", func(c *Config) { c.Listen.Address = "fe80::1%eth0" }},
		{"listen.address", "of one machine", func(c *Config) { c.Listen.Address = "224.0.0.1" }},
		{"listen.clientPort", "from 1 to 65535", func(c *Config) { c.Listen.ClientPort = 65536 }},
		{"listen.peerPort", "from 1 to 65535", func(c *Config) { c.Listen.PeerPort = -1 }},
		{"listen.peerPort", "the same as the client port", func(c *Config) { c.Listen.ClientPort = 2380 }},
		{"listen.clientURLs[1]", "must begin with https://", func(c *Config) {
			c.Listen.ClientURLs = []string{"https://10.0.0.1:1", "http://10.0.0.1:2"}
		}},
		{"listen.peerURLs[0]", "not an IP address", func(c *Config) { c.Listen.PeerURLs = []string{"https://a:2380"} }},
		{"listen.metricsURLs[0]", "not of the form", func(c *Config) { c.Listen.MetricsURLs = []string{"http://10.0.0.1"} }},
		{"paths.data", "not an absolute path", func(c *Config) { c.Paths.Data = "data" }},
		{"paths.units", "control characters", func(c *Config) { c.Paths.Units = "/a\nb" }},
		{"paths.cache", "not UTF-8", func(c *Config) { c.Paths.Cache = "/a\xff" }},
		{"paths.data", "which is also used for something else", func(c *Config) { c.Paths.Data = "/x/.." }},
		{"paths.certificates", "the same as the data directory", func(c *Config) { c.Paths.Certificates = "/var/lib/etcd/" }},
		{"certificates.serverSANs[0]", "neither a host name nor", func(c *Config) {
			c.Certificates.ServerSANs = []string{"a b"}
		}},
		{"certificates.peerSANs[1]", "neither a host name nor", func(c *Config) {
			c.Certificates.PeerSANs = []string{"a", "-a"}
		}},
		{"certificates.peerSANs[0]", "neither a host name nor", func(c *Config) {
			c.Certificates.PeerSANs = []string{"a.*"}
		}},
		{"certificates.peerSANs[0]", "neither a host name nor", func(c *Config) { c.Certificates.PeerSANs = []string{""} }},
		{"certificates.peerSANs[0]", "neither a host name nor", func(c *Config) {
			c.Certificates.PeerSANs = []string{"https://a"}
		}},
		{"certificates.keyAlgorithm", "must be ECDSA-P256 or RSA-2048", func(c *Config) {
			c.Certificates.KeyAlgorithm = "RSA"
		}},
		{"certificates.lifetime", "but must be positive", func(c *Config) { c.Certificates.Lifetime = -1 }},
		{"certificates.lifetime", "longer than that of the certificate authority", func(c *Config) {
			c.Certificates.CALifetime = Duration(time.Hour)
		}},
		{"binaries.releaseURL", "not of the form", func(c *Config) { c.Binaries.ReleaseURL = "ftp://x" }},
		{"binaries.releaseURL", "not of the form", func(c *Config) { c.Binaries.ReleaseURL = "https:///x" }},
		{"binaries.sha256", "64 hexadecimal digits", func(c *Config) { c.Binaries.SHA256 = "sha256:abc" }},
		{"binaries.releaseURL", "plain http", func(c *Config) { c.Binaries.ReleaseURL = "http://mirror.example.com/etcd" }},
		{"binaries.skipChecksum", "so is the checksum", func(c *Config) {
			c.Binaries.SkipChecksum, c.Binaries.SHA256 = true, strings.Repeat("a", 64)
		}},
		{"binaries.image", "contains a space", func(c *Config) { c.Binaries.Image = "a b" }},
		{"binaries.dir", "control characters", func(c *Config) { c.Binaries.Dir = "\x00" }},
		{"service.initSystem", "must be systemd, kubelet or process", func(c *Config) { c.Service.InitSystem = "openrc" }},
		{"service.user", "is not a name that systemd accepts", func(c *Config) { c.Service.User = "a:b" }},
		{"service.group", "is not a name that systemd accepts", func(c *Config) { c.Service.Group = "a b" }},
		{"service.priorities[0]", "not of the form KEY=VALUE", func(c *Config) { c.Service.Priorities = []string{"Nice"} }},
		{"service.priorities[1]", "sets what is run; put it into a drop-in (systemctl edit etcd)", func(c *Config) {
			c.Service.Priorities = []string{"Nice=1", "ExecStart=/x"}
		}},
		{"service.imageRepository", "is not valid", func(c *Config) { c.Service.ImageRepository = "a b" }},
		{"service.cpu", "not quantities", func(c *Config) { c.Service.CPU = "some" }},
		{"service.memory", "not quantities", func(c *Config) { c.Service.Memory = "1GiB" }},
		{"etcd.cipherSuites[0]", "did you mean TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256?", func(c *Config) {
			c.Etcd.CipherSuites = []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA265"}
		}},
		{"etcd.quotaBytes", "but must be positive", func(c *Config) { c.Etcd.QuotaBytes = -1 }},
		{"etcd.flags.quota-backend-bytes", "so is etcd.quotaBytes", func(c *Config) {
			c.Etcd.QuotaBytes, c.Etcd.Flags = 1<<30, map[string]string{"quota-backend-bytes": "1"}
		}},
		{"etcd.flags.metrics", "control characters", func(c *Config) { c.Etcd.Flags = map[string]string{"metrics": "a\nb"} }},
		{"etcd.environment.a-b", "not of the form KEY=VALUE", func(c *Config) {
			c.Etcd.Environment = map[string]string{"a-b": "x"}
		}},
		{"etcd.environment.A", "has the character", func(c *Config) { c.Etcd.Environment = map[string]string{"A": "x\ny"} }},
		{"etcd.environment.ETCD_NAME", "is part of the member's identity", func(c *Config) {
			c.Etcd.Environment = map[string]string{"ETCD_NAME": "x"}
		}},
		{"etcd.environment.ETCD_METRICS", "so is the flag", func(c *Config) {
			c.Etcd.Environment = map[string]string{"ETCD_METRICS": "basic"}
			c.Etcd.Flags = map[string]string{"metrics": "extensive"}
		}},
		{"snapshot.file", "control characters", func(c *Config) { c.Snapshot.File = "a\tb" }},
		{"timeouts.promotion", "but must be positive", func(c *Config) { c.Timeouts.Promotion = Duration(-time.Second) }},
	} {
		c := Defaults()
		tt.edit(&c)
		var wrong FieldErrors
		if err := c.Validate(); !errors.As(err, &wrong) || len(wrong) != 1 || wrong[0].Path != tt.path ||
			!strings.Contains(wrong[0].Text, tt.text) {
			t.Errorf("%s: got %v, want %q", tt.path, err, tt.text)
		}
	}
}

func TestAllThatIsWrongIsNamed(t *testing.T) {
	c := Defaults()
	c.Name, c.Paths.Data, c.Timeouts.Start = "a b", "x", -1
	var wrong FieldErrors
	if !errors.As(c.Validate(), &wrong) || len(wrong) != 3 {
		t.Fatalf("got %v", c.Validate())
	}
	var paths []string
	for _, e := range wrong {
		paths = append(paths, e.Path)
	}
	if want := []string{"name", "paths.data", "timeouts.start"}; !slices.Equal(paths, want) {
		t.Errorf("got %v", paths)
	}
	if s := wrong.Error(); !strings.Contains(s, `; paths.data is "x", not an absolute path; `) {
		t.Errorf("got %s", s)
	}
}

func TestFlagsAreCheckedForTheVersion(t *testing.T) {
	c := Defaults()
	c.Etcd.Flags = map[string]string{"snapshot-count": "5000", "corrupt-check-time": "1h"}
	if err := c.CheckFlags(); err != nil {
		t.Errorf("%s: %v", c.Version, err)
	}
	c.Version = etcdversion.Version{}
	if err := c.CheckFlags(); err != nil {
		t.Errorf("the default version: %v", err)
	}
	c.Version = etcdversion.Must("3.5.35")
	var wrong FieldErrors
	if err := c.CheckFlags(); !errors.As(err, &wrong) || len(wrong) != 1 ||
		wrong[0].Path != "etcd.flags.corrupt-check-time" ||
		!strings.Contains(wrong[0].Text, "use experimental-corrupt-check-time") {
		t.Errorf("got %v", err)
	}
	c.Etcd.Flags = map[string]string{"name": "x"}
	if err := c.CheckFlags(); err == nil || !strings.Contains(err.Error(), "etcd.flags.name is part of the member's identity") {
		t.Errorf("got %v", err)
	}
}
