package certificates

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/daemons"
)

// The places of the three files on a control plane, as kubeadm's documentation
// of external etcd has them; --upload-certs of kubeadm knows them too.
const (
	KubeadmCA   = "/etc/kubernetes/pki/etcd/ca.crt"
	KubeadmCert = "/etc/kubernetes/pki/apiserver-etcd-client.crt"
	KubeadmKey  = "/etc/kubernetes/pki/apiserver-etcd-client.key"
)

// NewKubeadm returns the command kubeadm with those below it.
func NewKubeadm() *cobra.Command { return newKubeadm(daemons.Find) }

func newKubeadm(find finder) *cobra.Command {
	cmd := cli.Group("kubeadm", "print what kubeadm needs to use this etcd")
	cmd.Long = `An etcd that kubeadm does not run itself is an external etcd to it. On the first control plane kubeadm needs
three files, which bundle packs, and a section in its configuration, which config prints. On a machine where
etcd-manager runs, both are for the etcd of that daemon.`
	cmd.AddCommand(kubeadmConfig(find), bundleCommand(find))
	return cmd
}

// KubeadmFiles are where the three files are on the control plane; the empty
// ones are in kubeadm's own places.
type KubeadmFiles struct{ CA, Cert, Key string }

// The kinds of kubeadm's configuration in which the stanza is.
const (
	kubeadmAPI    = "kubeadm.k8s.io/v1beta4" // from Kubernetes 1.31 on
	kubeadmOldAPI = "kubeadm.k8s.io/v1beta3" // from 1.22 on
)

type clusterConfiguration struct {
	APIVersion        string `yaml:"apiVersion"`
	Kind              string `yaml:"kind"`
	KubernetesVersion string `yaml:"kubernetesVersion,omitempty"`
	Etcd              struct {
		External externalEtcd `yaml:"external"`
	} `yaml:"etcd"`
}

type externalEtcd struct {
	Endpoints []string `yaml:"endpoints"`
	CAFile    string   `yaml:"caFile"`
	CertFile  string   `yaml:"certFile"`
	KeyFile   string   `yaml:"keyFile"`
}

// KubeadmConfig returns kubeadm's ClusterConfiguration for an external etcd
// with these client URLs, which are checked: https, a host, a port, and nothing
// else. The version of Kubernetes may be empty, a release ("1.34.1", with or
// without v) or one of kubeadm's labels ("stable-1.34"); it decides on the
// version of the configuration's kind.
func KubeadmConfig(endpoints []string, version string, files KubeadmFiles) ([]byte, error) {
	api, version, err := kubernetes(version)
	if err != nil {
		return nil, err
	}
	if len(endpoints) == 0 {
		return nil, errors.New("kubeadm needs at least one endpoint of etcd")
	}
	c := clusterConfiguration{APIVersion: api, Kind: "ClusterConfiguration", KubernetesVersion: version}
	c.Etcd.External = externalEtcd{
		CAFile: or(files.CA, KubeadmCA), CertFile: or(files.Cert, KubeadmCert), KeyFile: or(files.Key, KubeadmKey),
	}
	for _, text := range endpoints {
		u, err := clientURL(text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(c.Etcd.External.Endpoints, u) {
			c.Etcd.External.Endpoints = append(c.Etcd.External.Endpoints, u)
		}
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(c), e.Close()); err != nil {
		return nil, fmt.Errorf("kubeadm configuration: %w", err)
	}
	return b.Bytes(), nil
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// clientURL checks an endpoint as the API server takes it.
func clientURL(text string) (string, error) {
	if strings.Contains(text, "@") {
		return "", errors.New("an endpoint has a user or a password in it; give it as https://HOST:2379")
	}
	u, err := url.Parse(strings.TrimSuffix(text, "/"))
	if err != nil {
		return "", fmt.Errorf("endpoint %q is not a URL", text)
	}
	port, perr := strconv.Atoi(u.Port())
	switch {
	case u.Scheme != "https":
		return "", fmt.Errorf("endpoint %q does not begin with https://: kubeadm's files are for TLS", text)
	case u.Hostname() == "" || perr != nil || port < 1 || port > 65535:
		return "", fmt.Errorf("endpoint %q is not of the form https://HOST:2379", text)
	case u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", fmt.Errorf("endpoint %q has more than host and port", text)
	}
	return "https://" + net.JoinHostPort(u.Hostname(), u.Port()), nil
}

var (
	release = regexp.MustCompile(`^v?1\.(\d+)\.\d+([-+][0-9A-Za-z.+-]+)?$`)
	label   = regexp.MustCompile(`^(?:ci/|release/)?(?:stable|latest)(?:-1(?:\.(\d+))?)?$`)
)

// kubernetes returns the version of the configuration's kind for a version of
// Kubernetes, and that in the form in which kubeadm wants it.
func kubernetes(version string) (api, normal string, err error) {
	if version == "" {
		return kubeadmAPI, "", nil
	}
	minor, normal := "", version
	if m := release.FindStringSubmatch(version); m != nil {
		minor, normal = m[1], "v"+strings.TrimPrefix(version, "v")
	} else if m := label.FindStringSubmatch(version); m != nil {
		minor = m[1]
	} else {
		return "", "", fmt.Errorf("%q is neither a version of Kubernetes, as in 1.34.1, nor a label such as stable-1.34",
			version)
	}
	switch n, err := strconv.Atoi(minor); {
	case err == nil && n < 22:
		return "", "", fmt.Errorf("the kubeadm of Kubernetes %s cannot read this configuration; 1.22 and later can",
			version)
	case err == nil && n < 31:
		return kubeadmOldAPI, normal, nil
	}
	return kubeadmAPI, normal, nil
}

func kubeadmConfig(find finder) *cobra.Command {
	var (
		endpoints []string
		version   string
		timeout   time.Duration
	)
	cmd := &cobra.Command{
		Use: "config", Short: "print kubeadm's configuration for this etcd",
		Long: `config prints a ClusterConfiguration for kubeadm init that uses this etcd as external etcd. The endpoints are
those of the running cluster, or those that this machine knows if it does not answer.`,
		Example: "  etcdadm kubeadm config > kubeadm.yaml\n  etcdadm kubeadm config " +
			"--endpoints=https://10.0.0.1:2379,https://10.0.0.2:2379",
		Args: cobra.NoArgs,
	}
	flags := addHome(cmd, find)
	cmd.Flags().StringSliceVar(&endpoints, "endpoints", nil, "client `URLs` of etcd (default: those of all members)")
	cmd.Flags().StringVar(&version, "kubernetes-version", "", "`version` of Kubernetes in the configuration (default: none)")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for the member list")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(endpoints) == 0 {
			h, err := flags.home(cmd)
			if err != nil {
				return err
			}
			if endpoints, err = h.found(cmd, timeout); err != nil {
				return cli.WithHint(err, "name the members: --endpoints=https://HOST:2379,...")
			}
		}
		text, err := KubeadmConfig(endpoints, version, KubeadmFiles{})
		if err != nil {
			return &cli.UsageError{Text: err.Error(), Next: "etcdadm kubeadm config --endpoints=https://HOST:2379,..."}
		}
		_, err = cmd.OutOrStdout().Write(text)
		return err
	}
	return cmd
}
