// Package hetzner finds and attaches volumes of Hetzner's cloud.
package hetzner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
)

const metadataURL = "http://169.254.169.254/hetzner/v1/metadata"

type provider struct {
	volumes.Options
	client *hcloud.Client
	// metadata and its client are where a machine learns who it is.
	metadata string
	local    *http.Client
	self     volumes.Lazy[*hcloud.Server]
}

// New returns the provider of Hetzner, with the token of HCLOUD_TOKEN.
func New(_ context.Context, o volumes.Options) (volumes.Provider, error) {
	token := os.Getenv("HCLOUD_TOKEN")
	if token == "" {
		return nil, errors.New("the variable HCLOUD_TOKEN has no token of the API")
	}
	if err := o.Need(); err != nil {
		return nil, err
	}
	return open(o, metadataURL, volumes.Local(), hcloud.WithToken(token)), nil
}

func open(o volumes.Options, metadata string, local *http.Client, client ...hcloud.ClientOption) *provider {
	// Who asks asks again, more and more rarely.
	once := hcloud.WithRetryOpts(hcloud.RetryOpts{BackoffFunc: hcloud.ConstantBackoff(0)})
	client = append(client, hcloud.WithApplication("etcdadm", ""), once)
	return &provider{Options: o, client: hcloud.NewClient(client...), metadata: metadata, local: local}
}

func (p *provider) server(ctx context.Context) (*hcloud.Server, error) {
	return p.self.Get(ctx, func(ctx context.Context) (*hcloud.Server, error) {
		text, err := volumes.Metadata(ctx, p.local, http.MethodGet, p.metadata+"/instance-id")
		if err != nil {
			return nil, err
		}
		id, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("metadata instance-id: %w", err)
		}
		s, _, err := p.client.Server.GetByID(ctx, id)
		if err == nil && (s == nil || s.Location == nil) {
			err = errors.New("the API does not show it")
		}
		if err != nil {
			return nil, fmt.Errorf("server %d: %w", id, err)
		}
		return s, nil
	})
}

// Address is that in the first private network.
func (p *provider) Address(ctx context.Context) (string, error) {
	s, err := p.server(ctx)
	if err != nil {
		return "", err
	}
	if a := private(s); a != "" {
		return a, nil
	}
	p.self.Forget()
	return "", fmt.Errorf("server %d is in no private network; attach it to one, or set --address", s.ID)
}

func private(s *hcloud.Server) string {
	for _, n := range s.PrivateNet {
		if n.IP != nil {
			return n.IP.String()
		}
	}
	return ""
}

func (p *provider) Find(ctx context.Context) ([]volumes.Volume, error) {
	s, err := p.server(ctx)
	if err != nil {
		return nil, err
	}
	// The name tag of kops is the label of the instance group: it selects.
	tags := slices.Clone(p.Tags)
	if p.NameTag != "" {
		tags = append(tags, p.NameTag)
	}
	return p.list(ctx, s, tags, s.Location.Name)
}

// list returns the volumes with the labels at a location, "" for all.
func (p *provider) list(ctx context.Context, s *hcloud.Server, labels []string, at string) ([]volumes.Volume, error) {
	all, err := p.client.Volume.AllWithOpts(ctx, hcloud.VolumeListOpts{
		ListOpts: hcloud.ListOpts{LabelSelector: strings.Join(labels, ","), PerPage: 50},
	})
	var found []volumes.Volume
	for _, h := range all {
		if at != "" && (h.Location == nil || h.Location.Name != at) {
			continue
		}
		id := strconv.FormatInt(h.ID, 10)
		v := volumes.Volume{
			ID: id, Node: "vol-" + id, MountName: "hcloud-" + id, Devices: []string{"/dev/disk/by-id/scsi-0HC_Volume_" + id},
		}
		if h.Server != nil {
			v.Machine, v.Here = strconv.FormatInt(h.Server.ID, 10), h.Server.ID == s.ID
		}
		found = append(found, v)
	}
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	return found, nil
}

func (p *provider) Attach(ctx context.Context, v volumes.Volume) (volumes.Volume, error) {
	s, err := p.server(ctx)
	if err != nil {
		return v, err
	}
	id, err := strconv.ParseInt(v.ID, 10, 64)
	if err != nil {
		return v, fmt.Errorf("id of the volume: %w", err)
	}
	action, _, err := p.client.Volume.AttachWithOpts(ctx, &hcloud.Volume{ID: id}, hcloud.VolumeAttachOpts{Server: s})
	if err == nil {
		err = volumes.Until(ctx, func(ctx context.Context) (bool, error) {
			switch {
			case action.Status == hcloud.ActionStatusSuccess:
				return true, nil
			case action.Status == hcloud.ActionStatusError:
				return false, action.Error()
			}
			next, _, err := p.client.Action.GetByID(ctx, action.ID)
			if err == nil && next == nil {
				err = fmt.Errorf("action %d is gone", action.ID)
			}
			action = next
			return false, err
		})
	}
	if err != nil {
		return volumes.Settle(ctx, p, v, err)
	}
	v.Machine, v.Here = strconv.FormatInt(s.ID, 10), true
	return v, nil
}

// Nodes asks for all servers at once: requests are counted.
func (p *provider) Nodes(ctx context.Context) ([]volumes.Node, error) {
	s, err := p.server(ctx)
	if err != nil {
		return nil, err
	}
	found, err := p.list(ctx, s, p.Tags, "")
	if err != nil {
		return nil, err
	}
	servers, err := p.client.Server.AllWithOpts(ctx, hcloud.ServerListOpts{ListOpts: hcloud.ListOpts{PerPage: 50}})
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	addresses := map[string][]string{}
	for _, s := range servers {
		if a := private(s); a != "" {
			addresses[strconv.FormatInt(s.ID, 10)] = []string{a}
		}
	}
	return volumes.NodesOf(found, addresses), nil
}
