// Package gce finds and attaches persistent disks of Google's Compute Engine.
package gce

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"

	"cloud.google.com/go/compute/metadata"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
)

// perPage is the most that one answer holds.
const perPage = 500

type provider struct {
	volumes.Options
	tags     []volumes.Tag
	metadata *metadata.Client
	// client says where the API is and who asks it.
	client []option.ClientOption
	self   volumes.Lazy[machine]
	zones  volumes.Lazy[[]string]
}

// A machine is this one.
type machine struct {
	project, zone, name string
	api                 *compute.Service
}

func (m machine) id() string { return m.zone + "/" + m.name }

// New returns the provider of Google, with its default credentials.
func New(_ context.Context, o volumes.Options) (volumes.Provider, error) {
	if err := o.Need(); err != nil {
		return nil, err
	}
	return open(o, metadata.NewClient(volumes.Local()), option.WithScopes(compute.ComputeScope)), nil
}

func open(o volumes.Options, m *metadata.Client, client ...option.ClientOption) *provider {
	return &provider{Options: o, tags: volumes.ParseTags(o.Tags, "="), metadata: m, client: client}
}

func (p *provider) machine(ctx context.Context) (machine, error) {
	return p.self.Get(ctx, func(ctx context.Context) (m machine, err error) {
		for _, ask := range []struct {
			to  *string
			get func(context.Context) (string, error)
		}{
			{&m.project, p.metadata.ProjectIDWithContext}, {&m.zone, p.metadata.ZoneWithContext},
			{&m.name, p.metadata.InstanceNameWithContext},
		} {
			if *ask.to, err = ask.get(ctx); err != nil {
				return m, fmt.Errorf("ask for metadata: %w", err)
			}
		}
		// Credentials are kept with the context.
		m.api, err = compute.NewService(context.WithoutCancel(ctx), p.client...)
		return m, err
	})
}

func (p *provider) Address(ctx context.Context) (string, error) {
	a, err := p.metadata.InternalIPWithContext(ctx)
	if err != nil {
		return "", fmt.Errorf("ask for metadata: %w", err)
	}
	return a, nil
}

func (p *provider) Find(ctx context.Context) ([]volumes.Volume, error) {
	m, err := p.machine(ctx)
	if err != nil {
		return nil, err
	}
	return p.inZone(ctx, m, m.zone)
}

func (p *provider) inZone(ctx context.Context, m machine, zone string) ([]volumes.Volume, error) {
	var disks []*compute.Disk
	err := m.api.Disks.List(m.project, zone).MaxResults(perPage).Pages(ctx, func(page *compute.DiskList) error {
		disks = append(disks, page.Items...)
		return nil
	})
	var found []volumes.Volume
	for _, d := range disks {
		if !volumes.Tagged(p.tags, d.Labels) {
			continue
		}
		v := volumes.Volume{
			ID: d.Name, UID: strconv.FormatUint(d.Id, 10), Node: p.NodeName(decode(d.Labels[p.NameTag]), d.Name),
			MountName: "master-" + zone + "-" + d.Name, Devices: []string{"/dev/disk/by-id/google-" + d.Name},
		}
		for _, u := range d.Users {
			// .../zones/ZONE/instances/NAME
			v.Machine = path.Base(path.Dir(path.Dir(u))) + "/" + path.Base(u)
		}
		v.Here = v.Machine == m.id()
		found = append(found, v)
	}
	return found, err
}

// decode undoes kops' encoding of labels: - and two hexadecimal digits are
// one byte.
func decode(label string) string {
	var b strings.Builder
	for i := 0; i < len(label); i++ {
		if label[i] == '-' && i+2 < len(label) {
			if c, err := strconv.ParseUint(label[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(label[i])
	}
	return b.String()
}

func (p *provider) Attach(ctx context.Context, v volumes.Volume) (volumes.Volume, error) {
	m, err := p.machine(ctx)
	if err != nil {
		return v, err
	}
	op, err := m.api.Instances.AttachDisk(m.project, m.zone, m.name, &compute.AttachedDisk{
		Source: "projects/" + m.project + "/zones/" + m.zone + "/disks/" + v.ID, DeviceName: v.ID, Mode: "READ_WRITE",
		Type: "PERSISTENT",
	}).Context(ctx).Do()
	if err == nil {
		err = volumes.Until(ctx, func(ctx context.Context) (bool, error) {
			switch {
			case op.Status != "DONE":
				op, err = m.api.ZoneOperations.Get(m.project, m.zone, op.Name).Context(ctx).Do()
				return false, err
			case op.Error != nil && len(op.Error.Errors) > 0:
				return false, fmt.Errorf("%s: %s", op.Error.Errors[0].Code, op.Error.Errors[0].Message)
			}
			return true, nil
		})
	}
	if err != nil {
		return volumes.Settle(ctx, p, v, err)
	}
	v.Machine, v.Here = m.id(), true
	return v, nil
}

// Nodes looks in all zones of the region.
func (p *provider) Nodes(ctx context.Context) ([]volumes.Node, error) {
	m, err := p.machine(ctx)
	if err != nil {
		return nil, err
	}
	zones, err := p.zones.Get(ctx, func(ctx context.Context) (all []string, err error) {
		region := m.zone[:max(strings.LastIndex(m.zone, "-"), 0)]
		err = m.api.Zones.List(m.project).Pages(ctx, func(page *compute.ZoneList) error {
			for _, z := range page.Items {
				if strings.HasPrefix(z.Name, region+"-") {
					all = append(all, z.Name)
				}
			}
			return nil
		})
		return all, err
	})
	if err != nil {
		return nil, err
	}
	var found []volumes.Volume
	for _, z := range zones {
		here, err := p.inZone(ctx, m, z)
		if err != nil {
			return nil, err
		}
		found = append(found, here...)
	}
	return p.NodesBy(found, "instance", func(id string) (addresses []string, err error) {
		zone, name, _ := strings.Cut(id, "/")
		i, err := m.api.Instances.Get(m.project, zone, name).Context(ctx).Do()
		var refused *googleapi.Error
		if errors.As(err, &refused) && refused.Code == http.StatusNotFound {
			err = fmt.Errorf("%w: %w", volumes.ErrMachineGone, err)
		}
		if err != nil {
			return nil, err
		}
		for _, n := range i.NetworkInterfaces {
			addresses = append(addresses, n.NetworkIP)
		}
		return addresses, nil
	})
}
