package harness

import (
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest/cloudstest"
)

// servers answer machines for a cloud.
type servers []*http.Server

// serve answers a machine at an address, over TLS too if there is a certificate.
func (s *servers) serve(m *Machine, address string, h http.Handler, cert *tls.Certificate) {
	m.c.t.Helper()
	m.c.must(ip("-n "+m.space.name+" addr add "+address+"/32 dev lo"), "give metadata an address")
	plain, err := m.space.listen(address + ":80")
	m.c.must(err, "serve metadata")
	server := &http.Server{Handler: h}
	*s = append(*s, server)
	go func(s *http.Server) { _ = s.Serve(plain) }(server) // it ends with shut
	if cert == nil {
		return
	}
	secure, err := m.space.listen(address + ":443")
	m.c.must(err, "serve a cloud")
	server = &http.Server{Handler: h, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12,
	}}
	*s = append(*s, server)
	go func() { _ = server.ServeTLS(secure, "", "") }()
}

// shut waits for what is being answered.
func (s *servers) shut(c *Cluster) {
	ctx, cancel := context.WithTimeout(c.ctx, stopTime)
	defer cancel()
	for _, server := range *s {
		if err := server.Shutdown(ctx); err != nil {
			c.t.Errorf("end a cloud: %v", err)
		}
	}
}

// A Cloud is any but Amazon's, with one machine of this cluster.
type Cloud struct {
	*volumestest.World
	fake    cloudstest.Fake
	etcd    KopsEtcd
	c       *Cluster
	servers servers
}

func (o *Cloud) close() { o.servers.shut(o.c) }

// CloudMachine returns a machine of the cloud for the member a of the etcd cluster, with a volume
// that is attached to nothing, and with this etcd. Its names, its API and its metadata
// are the cloud's own ones; that it can be trusted is in the machine's /etc/ssl/certs. There
// are other volumes, one of them of the member b at the address.
func (e KopsEtcd) CloudMachine(c *Cluster, provider, version, b string) (*Machine, *Cloud) {
	c.t.Helper()
	f := cloudstest.All()[provider]
	o := &Cloud{World: &volumestest.World{}, fake: f, etcd: e, c: c}
	place := volumestest.Place{Cluster: KopsName, Etcd: e.Key, Member: "a", Zone: f.Zone}
	disk := f.Disk(1, place)
	o.strangers(place, b)
	o.Disks = append(o.Disks, disk)
	want := f.Want(*disk)
	v := c.volume(disk.ID, 512)
	v.mount = want.MountName
	v.attached = func(*Machine) bool { return disk.Machine != "" }
	n := e.Node(c, o.node(*disk))
	dir := filepath.Join(c.Dir, "machine-"+n.Name)
	for path, text := range f.Files {
		c.must(os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755), "make a machine")
		c.must(os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600), "make a machine")
	}
	m := c.NewMachine(n, v)
	m.Etcd(version)
	m.Env, m.HostsLines = f.Env, f.Metadata+"\t"+strings.Join(f.Hosts, " ")+"\n"
	o.Self = f.Machine(1, f.Zone)
	o.Self.Addresses = []string{m.Address}
	o.Machines = append(o.Machines, o.Self)
	o.AfterAttach = func(d volumestest.Disk) {
		if d.ID != disk.ID {
			c.t.Errorf("the disk %s of somebody else is attached", d.ID)
			return
		}
		v.link = f.Want(d).Devices[0]
		if err := m.plug(); err != nil {
			c.t.Errorf("plug a volume: %v", err)
		}
	}
	o.servers.serve(m, f.Metadata, f.Serve(c.t, o.World), c.webCertificate(m, f.Hosts...))
	c.clouds = append(c.clouds, o)
	return m, o
}

// strangers are volumes that no daemon of the machine may use.
func (o *Cloud) strangers(p volumestest.Place, b string) {
	f := o.fake
	events, other, neighbour := p, p, p
	events.Etcd, other.Cluster, neighbour.Member, neighbour.Zone = KopsEvents.Key, "other.example.com", "b", f.Other
	machine := f.Machine(2, f.Other)
	machine.Addresses = []string{b}
	o.Machines = append(o.Machines, machine)
	disk := f.Disk(4, neighbour)
	disk.Machine = machine.ID
	o.Disks = append(o.Disks, f.Disk(2, events), f.Disk(3, other), disk)
}

// webCertificate returns one for hosts, which is trusted by who has the machine's certificates.
func (c *Cluster) webCertificate(m *Machine, hosts ...string) *tls.Certificate {
	c.t.Helper()
	ca, err := NewCA("public", false, time.Now().Add(24*time.Hour))
	c.must(err, "make a CA")
	c.must(ca.Write(filepath.Join(c.Dir, "public"), "ca"), "make a CA")
	text, err := os.ReadFile(filepath.Join(c.Dir, "public", "ca.crt"))
	c.must(err, "make a CA")
	c.must(os.WriteFile(filepath.Join(m.dir, "certs", "ca-certificates.crt"), text, 0o644), "install a CA")
	cert, err := ca.Issue(filepath.Join(c.Dir, "public"), "server", hosts...)
	c.must(err, "make a certificate")
	return &cert
}

// CloudArgs is kops' line for the cloud, with c's store. Networks of OpenStack are c's.
func (e KopsEtcd) CloudArgs(c *Cluster, provider string, more ...string) []string {
	flags := slices.Clone(volumestest.KopsLines[provider].Flags)
	for i, f := range flags {
		flags[i] = strings.ReplaceAll(f, KopsMain.Key, e.Key)
		if strings.HasPrefix(f, "--network-cidr=") {
			flags[i] = "--network-cidr=" + c.Net.prefix + "0/24"
		}
	}
	return e.Args("file:///rootfs"+c.Store, append(append(flags, "--volume-provider="+provider), more...)...)
}

// Neighbour is the node of the member b.
func (o *Cloud) Neighbour() string {
	i := slices.IndexFunc(o.Disks, func(d *volumestest.Disk) bool { return d.Machine == o.Machines[0].ID })
	return o.node(*o.Disks[i])
}

// node is the name that a volume gives. The fakes know the etcd cluster main.
func (o *Cloud) node(d volumestest.Disk) string {
	name := o.fake.Want(d).Node
	if member, ok := strings.CutPrefix(name, KopsMain.Name+"-"); ok {
		return o.etcd.Name + "-" + member
	}
	return name
}
