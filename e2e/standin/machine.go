package standin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/testing/existing"
	"github.com/etcdadm/etcdadm/pkg/testing/testchild"
)

// A machine has the file state, and runs the member that the file names. One call is answered
// after the other.
type machine struct {
	o options

	mu       sync.Mutex
	state    existing.State
	prepared string
	until    time.Time
	etcd     *exec.Cmd
	exited   chan struct{}
	backups  int

	hosts hostsFile
}

func newMachine(o options) (*machine, error) {
	if err := ownHosts(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.data, 0o700); err != nil {
		return nil, err
	}
	m := &machine{o: o}
	m.hosts.of(o)
	var err error
	if m.state, err = existing.ReadState(o.data); err != nil {
		return nil, err
	}
	return m, m.hosts.write()
}

// found writes the hosts file with what discovery reports.
func (m *machine) found() {
	m.hosts.find(m.o)
	if err := m.hosts.write(); err != nil {
		log.Printf("write the hosts file: %v", err)
	}
}

// own is this machine's node: its peer URLs are those of state, the others those of the
// flags.
func (m *machine) own() existing.Node {
	n := m.o.node()
	if known, ok := m.state.Node(n.Name); ok {
		n.Peer = known.Peer
	}
	return n
}

// watch looks again and again, and starts the member where it does not run.
func (m *machine) watch(ctx context.Context, every time.Duration) {
	for ctx.Err() == nil {
		m.mu.Lock()
		if m.state.Token != "" && !m.runs() {
			if err := m.start(); err != nil {
				log.Printf("start etcd: %v", err)
			}
		}
		m.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
}

func (m *machine) runs() bool {
	if m.etcd == nil {
		return false
	}
	select {
	case <-m.exited:
		return false
	default:
		return true
	}
}

func (m *machine) dataDir() string { return filepath.Join(m.o.data, "data", m.state.Token) }

// start starts the member of state.
func (m *machine) start() error {
	binary, err := m.binary(m.state.Version, "etcd")
	if err != nil {
		return err
	}
	env, err := m.environment()
	if err != nil {
		return err
	}
	log.Printf("start etcd %s", m.state.Version)
	cmd := exec.Command(binary)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, os.Stdout, os.Stderr
	if err := testchild.Start(cmd); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		log.Printf("etcd ended: %v", cmd.Wait())
	}()
	m.etcd, m.exited = cmd, exited
	return nil
}

func (m *machine) binary(version, program string) (string, error) {
	return harness.EtcdBinary(strings.Join(m.o.etcd, ":"), strings.TrimPrefix(version, "v"), program)
}

// environment is all that etcd is given.
func (m *machine) environment() ([]string, error) {
	n, phase := m.own(), "existing"
	if m.state.New {
		phase = "new"
	}
	client := n.Client[0]
	if m.state.Quarantined {
		client = n.QuarantineURLs[0]
	}
	var initial []string
	for _, other := range m.state.Nodes {
		initial = append(initial, other.Name+"="+other.Peer[0])
	}
	everywhere := func(u string) string { return strings.Replace(u, hostOf(u), "0.0.0.0", 1) }
	env := []string{
		"DATA_DIR=" + m.dataDir(), "LOGGER=zap", "LOG_OUTPUTS=stdout", "NAME=" + n.Name,
		"LISTEN_PEER_URLS=" + everywhere(n.Peer[0]), "INITIAL_ADVERTISE_PEER_URLS=" + n.Peer[0],
		"LISTEN_CLIENT_URLS=" + everywhere(client), "ADVERTISE_CLIENT_URLS=" + client,
		"INITIAL_CLUSTER_STATE=" + phase, "INITIAL_CLUSTER_TOKEN=" + m.state.Token,
		"INITIAL_CLUSTER=" + strings.Join(initial, ","), "STRICT_RECONFIG_CHECK=true", "LISTEN_METRICS_URLS=",
	}
	keys, err := m.keys()
	if err != nil {
		return nil, err
	}
	env = append(env, keys...)
	if strings.HasPrefix(strings.TrimPrefix(m.state.Version, "v"), "3.5.") {
		env = append(env, "EXPERIMENTAL_INITIAL_CORRUPT_CHECK=true")
	}
	for i := range env {
		env[i] = "ETCD_" + env[i]
	}
	for _, own := range os.Environ() { // of two with one name the last one holds
		if strings.HasPrefix(own, "ETCD_") {
			env = append(env, own)
		}
	}
	return env, nil
}

// keys are the variables of TLS. There are keys beside http URLs, too.
func (m *machine) keys() ([]string, error) {
	if m.o.insecure {
		return nil, nil
	}
	pki, err := m.issue(m.state.Token)
	if err != nil {
		return nil, err
	}
	return []string{
		"CLIENT_CERT_AUTH=true", "TRUSTED_CA_FILE=" + pki + "/clients/ca.crt",
		"CERT_FILE=" + pki + "/clients/server.crt", "KEY_FILE=" + pki + "/clients/server.key",
		"PEER_CLIENT_CERT_AUTH=true", "PEER_TRUSTED_CA_FILE=" + pki + "/peers/ca.crt",
		"PEER_CERT_FILE=" + pki + "/peers/me.crt", "PEER_KEY_FILE=" + pki + "/peers/me.key",
	}, nil
}

// stop ends the member with SIGKILL.
func (m *machine) stop() {
	if m.runs() {
		_ = m.etcd.Process.Kill()
		<-m.exited
	}
	m.etcd = nil
}

// Info returns what the machine is.
func (m *machine) Info() existing.Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := os.Stat(filepath.Join(m.o.data, "state"))
	empty := errors.Is(err, fs.ErrNotExist) && !m.holds("data", "data-trashcan")
	return existing.Info{Node: m.o.node(), State: m.state, DiskEmpty: empty}
}

// holds says that one of the directories has something in it.
func (m *machine) holds(dirs ...string) bool {
	for _, dir := range dirs {
		entries, err := os.ReadDir(filepath.Join(m.o.data, dir))
		if len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// Hosts writes the hosts file.
func (m *machine) Hosts(addresses map[string]string) { m.hosts.report(addresses) }

// Join has the machine run a member: the first phase reserves it for a minute.
func (m *machine) Join(j existing.Join) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Now().After(m.until) {
		m.prepared = ""
	}
	other := m.prepared != "" && m.prepared != j.Token
	switch {
	case j.Phase == existing.CancelPrepare && !other:
		m.prepared = ""
		return nil
	case other || j.Phase == existing.Prepare && m.runs():
		return errors.New("etcd runs, or another cluster is prepared")
	case j.Phase == existing.Prepare:
		if _, err := m.binary(j.Version, "etcd"); err != nil {
			return err
		}
		m.prepared, m.until = j.Token, time.Now().Add(time.Minute)
		return nil
	case m.prepared == "":
		return fmt.Errorf("%s is not prepared", j.Token)
	}
	m.prepared = ""
	first := j.Phase == existing.InitialCluster
	m.state = existing.State{Token: j.Token, Version: j.Version, Nodes: j.Nodes, New: first, Quarantined: first}
	if err := m.state.Write(m.o.data); err != nil {
		return err
	}
	if err := m.start(); err != nil {
		return err
	}
	m.state.New = false
	return m.state.Write(m.o.data)
}

// Reconfigure starts the member again.
func (m *machine) Reconfigure(version string, quarantined, enableTLS bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.Token == "" {
		return errors.New("there is no member")
	}
	if version != "" {
		if _, err := m.binary(version, "etcd"); err != nil {
			return err
		}
		m.state.Version = version
	}
	if enableTLS && m.o.insecure {
		return errors.New("there are no keys for etcd")
	}
	for i, n := range m.state.Nodes {
		if enableTLS && n.Name == m.o.name {
			m.state.Nodes[i] = withTLS(n)
		}
	}
	m.state.Quarantined = quarantined
	m.stop()
	if err := m.state.Write(m.o.data); err != nil {
		return err
	}
	return m.start()
}

// StopEtcd ends the member and sets its data aside.
func (m *machine) StopEtcd() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.Token == "" {
		return errors.New("there is no member")
	}
	m.stop()
	from := m.dataDir()
	aside := filepath.Join(m.o.data, "data-trashcan", m.state.Token)
	m.state = existing.State{}
	if err := m.state.Write(m.o.data); err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(aside), 0o755), os.Rename(from, aside)); err != nil {
		log.Printf("set %s aside: %v", from, err)
	}
	return nil
}
