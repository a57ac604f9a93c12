// Package openstack finds and attaches volumes of OpenStack: those of Cinder, to
// servers of Nova.
package openstack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	cinder "github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/volumeattach"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/internal/keystone"
)

type provider struct {
	volumes.Options
	tags     []volumes.Tag
	settings keystone.Settings
	// network is the one that addresses are to be in, the zero value for any.
	network netip.Prefix
	// metadata and its client, and the drive, are where a server learns who it is.
	metadata string
	local    *http.Client
	drive    func() (string, error)
	services volumes.Lazy[services]
	self     volumes.Lazy[server]
}

// services are those that are asked.
type services struct{ compute, block *gophercloud.ServiceClient }

// A server is this machine.
type server struct {
	services
	id, zone string
}

// New returns the provider of OpenStack, with the credentials that kops writes
// on the host, or without such a file those of the environment.
func New(_ context.Context, o volumes.Options) (volumes.Provider, error) {
	if err := o.Need(); err != nil {
		return nil, err
	}
	s, err := keystone.FromFile(filepath.Join("/", o.Root, keystone.Path))
	if errors.Is(err, fs.ErrNotExist) {
		missing := err
		if s, err = keystone.FromEnv(); err != nil {
			err = fmt.Errorf("%w; %w", missing, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return open(o, s, metadataURL, volumes.Local(), drive(o.Root))
}

func open(o volumes.Options, s keystone.Settings, metadata string, local *http.Client,
	drive func() (string, error)) (*provider, error) {
	p := &provider{
		Options: o, tags: volumes.ParseTags(o.Tags, "="), settings: s, metadata: metadata, local: local, drive: drive,
	}
	if o.NetworkCIDR != "" {
		network, err := netip.ParsePrefix(o.NetworkCIDR)
		if err != nil {
			return nil, fmt.Errorf("--network-cidr: %w", err)
		}
		p.network = network
	}
	return p, nil
}

func (p *provider) connect(ctx context.Context) (services, error) {
	return p.services.Get(ctx, func(ctx context.Context) (s services, err error) {
		client, err := p.settings.Login(ctx)
		if err != nil {
			return s, err
		}
		if s.compute, err = openstack.NewComputeV2(client, p.settings.Endpoint()); err != nil {
			return s, fmt.Errorf("endpoint of Nova in region %q: %w", p.settings.Region, err)
		}
		if s.block, err = openstack.NewBlockStorageV3(client, p.settings.Endpoint()); err != nil {
			return s, fmt.Errorf("endpoint of Cinder in region %q: %w", p.settings.Region, err)
		}
		return s, nil
	})
}

func (p *provider) server(ctx context.Context) (server, error) {
	return p.self.Get(ctx, func(ctx context.Context) (server, error) {
		m, err := p.ask(ctx)
		if err != nil {
			return server{}, err
		}
		s, err := p.connect(ctx)
		if err != nil {
			return server{}, err
		}
		nova, err := servers.Get(ctx, s.compute, m.UUID).Extract()
		if err != nil {
			return server{}, fmt.Errorf("server %s: %w", m.UUID, err)
		}
		zone := nova.AvailabilityZone
		if zone == "" {
			zone = m.Zone
		}
		if zone == "" && !p.settings.IgnoreVolumeZone {
			return server{}, fmt.Errorf("server %s: neither Nova nor the metadata says its availability zone, so it is not known "+
				"which volumes it can reach; if it is all of them, set ignore-volume-az=true below [BlockStorage] in %s",
				m.UUID, keystone.Path)
		}
		return server{services: s, id: m.UUID, zone: zone}, nil
	})
}

// Address is that in the first network, in the order of their names.
func (p *provider) Address(ctx context.Context) (string, error) {
	s, err := p.server(ctx)
	if err != nil {
		return "", err
	}
	// It may have come since the server was asked for its zone.
	nova, err := servers.Get(ctx, s.compute, s.id).Extract()
	if err != nil {
		return "", fmt.Errorf("server %s: %w", s.id, err)
	}
	if a := p.address(nova); a != "" {
		return a, nil
	}
	where := ""
	if p.network.IsValid() {
		where = " in --network-cidr=" + p.NetworkCIDR
	}
	return "", fmt.Errorf("server %s has no fixed address%s; correct that, or set --address", s.id, where)
}

// address returns a server's first fixed address, "" for none.
func (p *provider) address(s *servers.Server) string {
	for _, network := range slices.Sorted(maps.Keys(s.Addresses)) {
		list, _ := s.Addresses[network].([]any)
		for _, item := range list {
			fields, _ := item.(map[string]any)
			text, _ := fields["addr"].(string)
			if kind, ok := fields["OS-EXT-IPS:type"].(string); ok && kind != "fixed" {
				continue
			}
			a, err := netip.ParseAddr(text)
			if err == nil && (!p.network.IsValid() || p.network.Contains(a)) {
				return text
			}
		}
	}
	return ""
}

// Find returns the volumes in the server's zone, which is also that of its host,
// unless the settings say that volumes have other zones than servers.
func (p *provider) Find(ctx context.Context) ([]volumes.Volume, error) {
	s, err := p.server(ctx)
	if err != nil {
		return nil, err
	}
	zone := s.zone
	if p.settings.IgnoreVolumeZone {
		zone = ""
	}
	found, err := p.list(ctx, s, zone)
	if err != nil || !slices.ContainsFunc(found, func(v volumes.Volume) bool { return v.Busy != "" }) {
		return found, err
	}
	return found, p.destinations(ctx, s, found)
}

// destinations says of busy volumes whether they are on their way to this
// server: Cinder shows no attachment before it is made, and Nova one from
// the request on. So Nova has to be asked after Cinder.
func (p *provider) destinations(ctx context.Context, s server, found []volumes.Volume) error {
	has, known, err := s.volumes(ctx)
	if err != nil || !known {
		return err
	}
	for i := range found {
		v := &found[i]
		switch {
		case v.Busy == "" || v.Moving:
		case has[v.ID]:
			v.Moving = true
			v.Busy = "is on its way to this machine and " + v.Busy
		default:
			v.Foreign = v.Machine == ""
		}
	}
	return nil
}

// volumes returns the ids of those that Nova attaches to the server or has
// attached to it. An answer without a list of them says nothing.
func (s server) volumes(ctx context.Context) (has map[string]bool, known bool, err error) {
	nova, err := servers.Get(ctx, s.compute, s.id).Extract()
	if err != nil {
		return nil, false, fmt.Errorf("server %s: %w", s.id, err)
	}
	has = map[string]bool{}
	for _, v := range nova.AttachedVolumes {
		has[v.ID] = true
	}
	return has, nova.AttachedVolumes != nil, nil
}

// list returns the cluster's volumes in a zone, "" for all.
func (p *provider) list(ctx context.Context, s server, zone string) ([]volumes.Volume, error) {
	var all []cinder.Volume
	err := cinder.List(s.block, cinder.ListOpts{}).EachPage(ctx, func(_ context.Context, p pagination.Page) (bool, error) {
		list, err := cinder.ExtractVolumes(p)
		all = append(all, list...)
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	var found []volumes.Volume
	for _, c := range all {
		if zone != "" && c.AvailabilityZone != zone || !volumes.Tagged(p.tags, c.Metadata) {
			continue
		}
		v := volumes.Volume{
			ID: c.ID, Node: p.NodeName(c.Metadata[p.NameTag], c.Name), MountName: "master-" + c.Name, Devices: devices(c.ID),
			Rescan: true,
		}
		for _, a := range c.Attachments {
			if v.Machine == "" || a.ServerID == s.id {
				v.Machine = a.ServerID
			}
		}
		own := v.Machine == s.id
		v.Here, v.Moving = own && c.Status != detaching, own && c.Status == detaching
		if v.Machine == "" && c.Status != available || v.Moving {
			v.Busy = "has the status " + c.Status
		}
		found = append(found, v)
	}
	return found, nil
}

// available is the status of a volume that can be attached, detaching that of
// one that is attached, and soon will not be.
const (
	available = "available"
	detaching = "detaching"
)

// devices are the links of virtio disks and of SCSI disks, whose names are cut by
// some. The device that the API reports is not the one that the kernel takes.
func devices(id string) []string {
	short := id[:min(len(id), 20)]
	var all []string
	for _, name := range []string{
		"virtio-" + short, "virtio-" + id, "scsi-0QEMU_QEMU_HARDDISK_" + short, "scsi-0QEMU_QEMU_HARDDISK_" + id,
		"wwn-0x" + strings.ReplaceAll(id, "-", ""),
	} {
		all = append(all, "/dev/disk/by-id/"+name)
	}
	return all
}

// Attach waits until Cinder says that the volume is attached: Nova answers when
// it has begun.
func (p *provider) Attach(ctx context.Context, v volumes.Volume) (volumes.Volume, error) {
	s, err := p.server(ctx)
	if err != nil {
		return v, err
	}
	_, err = volumeattach.Create(ctx, s.compute, s.id, volumeattach.CreateOpts{VolumeID: v.ID}).Extract()
	if err == nil {
		err = volumes.Until(ctx, func(ctx context.Context) (bool, error) {
			c, err := cinder.Get(ctx, s.block, v.ID).Extract()
			switch {
			case err != nil:
				return false, err
			case slices.ContainsFunc(c.Attachments, func(a cinder.Attachment) bool { return a.ServerID == s.id }):
				return c.Status == "in-use", nil
			case c.Status == available || strings.HasPrefix(c.Status, "error"):
				return false, fmt.Errorf("it was not attached, its status is %s; Nova's log on the server's host has the reason",
					c.Status)
			}
			return false, nil
		})
	}
	if err != nil {
		return volumes.Settle(ctx, p, v, s.refusal(ctx, v, err))
	}
	v.Machine, v.Here = s.id, true
	return v, nil
}

// refusal adds [volumes.ErrRefused] to the error of an attachment that Nova
// refused, unless Nova has an earlier request for it.
func (s server) refusal(ctx context.Context, v volumes.Volume, failed error) error {
	refused := func(status int) bool { return gophercloud.ResponseCodeIs(failed, status) }
	if !refused(http.StatusBadRequest) && !refused(http.StatusConflict) {
		return failed
	}
	if has, known, err := s.volumes(ctx); err != nil || !known || has[v.ID] {
		return failed
	}
	return fmt.Errorf("%w: %w", volumes.ErrRefused, failed)
}

// Nodes looks in all zones.
func (p *provider) Nodes(ctx context.Context) ([]volumes.Node, error) {
	s, err := p.server(ctx)
	if err != nil {
		return nil, err
	}
	found, err := p.list(ctx, s, "")
	if err != nil {
		return nil, err
	}
	return p.NodesBy(found, "server", func(id string) ([]string, error) {
		nova, err := servers.Get(ctx, s.compute, id).Extract()
		if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			err = fmt.Errorf("%w: %w", volumes.ErrMachineGone, err)
		}
		if err != nil {
			return nil, err
		}
		if a := p.address(nova); a != "" {
			return []string{a}, nil
		}
		return nil, nil
	})
}
