package standin

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/etcdadm/etcdadm/pkg/testing/existing"
)

// A controller is what a leader does, in each round: it looks at everything, and does the
// first thing that is to be done.
type controller struct {
	m     *machine
	every time.Duration
	tls   *tls.Config

	token      string
	spec       *existing.Spec
	commands   []command
	lastBackup time.Time
	lastPrune  time.Time
	healthyAt  map[uint64]time.Time
}

// A view is what a leader sees in one round.
type view struct {
	leader  existing.Leader
	infos   map[string]existing.Info
	members []*clientv3.Member
	healthy map[string]bool // by the name of a member
}

func (c *controller) act(ctx context.Context, l existing.Leader) {
	if err := c.round(ctx, l); err != nil {
		log.Printf("the round of the leader: %v", err)
	}
}

func (c *controller) round(ctx context.Context, l existing.Leader) error {
	if l.Token != c.token {
		if err := c.refresh(); err != nil {
			return err
		}
		c.token, c.healthyAt = l.Token, map[uint64]time.Time{}
	}
	v, err := c.observe(ctx, l)
	if err != nil {
		return err
	}
	if err := c.broadcast(ctx, v, v.leader.Acknowledged, v.configured()); err != nil {
		log.Printf("send the members to the others: %v", err)
	}
	isNew, err := c.isNew()
	if err != nil {
		return err
	}
	if isNew {
		if err := c.begin(ctx, v); err != nil || c.spec == nil {
			return err
		}
		return write(c.marker(), fmt.Appendf(nil, `{"timestamp":%d}`, time.Now().UnixNano()))
	}
	if c.spec == nil {
		return nil
	}
	if len(c.commands) > 0 {
		return c.restore(ctx, v, c.commands[0])
	}
	if len(v.members) > 0 {
		c.backUp(ctx, v)
	}
	if _, err := c.m.binary(c.spec.Version, "etcd"); err != nil {
		return fmt.Errorf("can't act as leader for unknown etcd version: %w", err)
	}
	return c.membership(ctx, v)
}

// isNew says whether the store has no marker. An empty one is an error.
func (c *controller) isNew() (bool, error) {
	b, err := os.ReadFile(c.marker())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err == nil && len(b) == 0:
		err = errors.New("the marker is empty")
	}
	return false, err
}

// begin makes a new cluster, if there is a spec, whatever is there.
func (c *controller) begin(ctx context.Context, v *view) error {
	if err := c.refresh(); err != nil || c.spec == nil {
		return err
	}
	if _, err := c.m.binary(c.spec.Version, "etcd"); err != nil {
		return err
	}
	return c.create(ctx, v, *c.spec)
}

func quorum(n int) int { return n/2 + 1 }

func (c *controller) marker() string {
	return filepath.Join(c.m.o.store, "control", "etcd-cluster-created")
}

// refresh reads the spec and the requests: for each leadership once.
func (c *controller) refresh() error {
	var err error
	if c.commands, err = readCommands(c.m.o.store); err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(c.m.o.store, "control", "etcd-cluster-spec"))
	if errors.Is(err, fs.ErrNotExist) {
		c.spec = nil
		return nil
	}
	var s specFile
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	spec := s.spec()
	c.spec = &spec
	return err
}

// observe asks each daemon for its machine, one etcd for the members, and each member
// whether it is well.
func (c *controller) observe(ctx context.Context, l existing.Leader) (*view, error) {
	v := &view{leader: l, infos: map[string]existing.Info{}, healthy: map[string]bool{}}
	for _, name := range l.Acknowledged {
		i, err := l.Info(ctx, name)
		if err != nil {
			return nil, err
		}
		v.infos[name] = i
	}
	for _, name := range v.configured() {
		if list, err := c.list(ctx, urlsOf(v.infos[name])); err == nil {
			v.members = list
			break
		}
	}
	for _, m := range v.members {
		urls := m.ClientURLs
		if i, ok := v.infos[m.Name]; ok {
			urls = urlsOf(i)
		}
		_, err := c.list(ctx, urls)
		v.healthy[m.Name] = err == nil
		if err == nil || c.healthyAt[m.ID].IsZero() {
			c.healthyAt[m.ID] = time.Now()
		}
	}
	return v, nil
}

func urlsOf(i existing.Info) []string {
	if i.State.Quarantined {
		return i.Node.QuarantineURLs
	}
	return i.Node.Client
}

// configured returns who has a member, sorted.
func (v *view) configured() []string {
	free := func(name string) bool { return v.infos[name].State.Token == "" }
	return slices.DeleteFunc(slices.Sorted(maps.Keys(v.infos)), free)
}

func (v *view) well() (n int) {
	for _, ok := range v.healthy {
		if ok {
			n++
		}
	}
	return n
}

func (c *controller) list(ctx context.Context, urls []string) (list []*clientv3.Member, err error) {
	err = c.with(ctx, urls, func(ctx context.Context, client *clientv3.Client) error {
		r, err := client.MemberList(ctx)
		if err == nil {
			for _, m := range r.Members {
				list = append(list, (*clientv3.Member)(m))
			}
		}
		return err
	})
	return list, err
}

// A clientCall asks etcd for something.
type clientCall = func(context.Context, *clientv3.Client) error

// with calls do with a client of the members at some URLs.
func (c *controller) with(ctx context.Context, urls []string, do clientCall) error {
	if len(urls) == 0 {
		return errors.New("the member has no client URLs")
	}
	if c.tls == nil && !c.m.o.insecure {
		config, err := clientTLS(c.m.o)
		if err != nil {
			return err
		}
		c.tls = config
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Endpoints: urls, TLS: c.tls, Logger: zap.NewNop(), Context: ctx})
	if err != nil {
		return err
	}
	defer client.Close()
	return do(ctx, client)
}

// clientTLS has a certificate that is in memory alone.
func clientTLS(o options) (*tls.Config, error) {
	ca, err := readAuthority(o.pki, "etcd-clients-ca")
	if err != nil {
		return nil, err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "etcd-manager-" + o.name},
		NotBefore: ca.cert.NotBefore, NotAfter: time.Now().Add(365 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca.cert, key.Public(), ca.key)
	return &tls.Config{
		RootCAs: ca.pool, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		MinVersion: tls.VersionTLS12,
	}, err
}

// broadcast sends all daemons where the members are.
func (c *controller) broadcast(ctx context.Context, v *view, to, members []string) error {
	addresses, at := map[string]string{}, c.m.o.places.known()
	for _, name := range members {
		addresses[c.m.o.host(name)] = at[name]
	}
	var errs []error
	for _, name := range to {
		errs = append(errs, v.leader.Hosts(ctx, name, addresses))
	}
	return errors.Join(errs...)
}
