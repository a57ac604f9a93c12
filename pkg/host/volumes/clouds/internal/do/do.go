// Package do finds and attaches volumes of DigitalOcean.
package do

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/digitalocean/godo"
	"golang.org/x/oauth2"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
)

const (
	metadataURL = "http://169.254.169.254/metadata/v1.json"
	perPage     = 200
)

type provider struct {
	volumes.Options
	tags   []volumes.Tag
	client *godo.Client
	// metadata and its client are where a machine learns who it is.
	metadata string
	local    *http.Client
	self     volumes.Lazy[droplet]
}

// A droplet is what a machine learns of itself.
type droplet struct {
	ID         int `json:"droplet_id"`
	Region     string
	Tags       []string
	Interfaces struct {
		Private []struct {
			IPv4 struct {
				Address string `json:"ip_address"`
			} `json:"ipv4"`
		}
	}
}

// New returns the provider of DigitalOcean, with the token of
// DIGITALOCEAN_ACCESS_TOKEN.
func New(ctx context.Context, o volumes.Options) (volumes.Provider, error) {
	token := os.Getenv("DIGITALOCEAN_ACCESS_TOKEN")
	if token == "" {
		return nil, errors.New("the variable DIGITALOCEAN_ACCESS_TOKEN has no token of the API")
	}
	if err := o.Need(); err != nil {
		return nil, err
	}
	return open(ctx, o, token, metadataURL, volumes.Local())
}

func open(ctx context.Context, o volumes.Options, token, metadata string, local *http.Client,
	set ...godo.ClientOpt) (*provider, error) {
	web := oauth2.NewClient(ctx, oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token}))
	client, err := godo.New(web, append(set, godo.SetUserAgent("etcdadm"))...)
	if err != nil {
		return nil, fmt.Errorf("client of DigitalOcean: %w", err)
	}
	return &provider{
		Options: o, tags: volumes.ParseTags(o.Tags, "="), client: client, metadata: metadata, local: local,
	}, nil
}

func (p *provider) droplet(ctx context.Context) (droplet, error) {
	return p.self.Get(ctx, func(ctx context.Context) (droplet, error) {
		var d droplet
		text, err := volumes.Metadata(ctx, p.local, http.MethodGet, p.metadata)
		if err == nil {
			err = json.Unmarshal([]byte(text), &d)
		}
		return d, err
	})
}

func (p *provider) Address(ctx context.Context) (string, error) {
	d, err := p.droplet(ctx)
	if err != nil {
		return "", err
	}
	for _, i := range d.Interfaces.Private {
		if i.IPv4.Address != "" {
			return i.IPv4.Address, nil
		}
	}
	p.self.Forget()
	return "", errors.New("the instance metadata has no private address")
}

// pairs are tags, which are KEY:VALUE, with keys in lower case: upper and lower case
// are not distinguished.
func pairs(tags []string) map[string]string {
	all := map[string]string{}
	for _, t := range tags {
		key, value, _ := strings.Cut(strings.ToLower(t), ":")
		all[key] = value
	}
	return all
}

// matches says whether a volume is the cluster's. Where there is a droplet, the
// values of tags without one have to be the droplet's, too.
func (p *provider) matches(v godo.Volume, d *droplet) bool {
	has, own := pairs(v.Tags), map[string]string{}
	if d != nil {
		own = pairs(d.Tags)
	}
	for _, t := range p.tags {
		key := strings.ToLower(t.Key)
		value, ok := has[key]
		want := strings.ToLower(t.Value)
		if t.Any {
			want = own[key]
		}
		if !ok || value != want && (d != nil || !t.Any) {
			return false
		}
	}
	_, ok := has[strings.ToLower(p.NameTag)]
	return ok || p.NameTag == ""
}

func (p *provider) Find(ctx context.Context) ([]volumes.Volume, error) {
	d, err := p.droplet(ctx)
	if err != nil {
		return nil, err
	}
	return p.list(ctx, d, d.Region, &d)
}

// list returns the cluster's volumes in a region, "" for all, that are for a
// droplet.
func (p *provider) list(ctx context.Context, self droplet, region string, d *droplet) ([]volumes.Volume, error) {
	var found []volumes.Volume
	for page := 1; ; page++ {
		list, resp, err := p.client.Storage.ListVolumes(ctx, &godo.ListVolumeParams{
			Region: region, ListOptions: &godo.ListOptions{Page: page, PerPage: perPage},
		})
		if err != nil {
			return nil, fmt.Errorf("list volumes: %w", err)
		}
		for _, g := range list {
			if !p.matches(g, d) {
				continue
			}
			v := volumes.Volume{
				ID: g.ID, Node: g.Name, MountName: "master-" + g.ID, Here: slices.Contains(g.DropletIDs, self.ID),
				Devices: []string{"/dev/disk/by-id/scsi-0DO_Volume_" + g.Name},
			}
			if len(g.DropletIDs) > 0 {
				v.Machine = strconv.Itoa(g.DropletIDs[0])
			}
			found = append(found, v)
		}
		if resp.Links == nil || resp.Links.IsLastPage() {
			return found, nil
		}
	}
}

func (p *provider) Attach(ctx context.Context, v volumes.Volume) (volumes.Volume, error) {
	d, err := p.droplet(ctx)
	if err != nil {
		return v, err
	}
	action, _, err := p.client.StorageActions.Attach(ctx, v.ID, d.ID)
	if err == nil {
		err = volumes.Until(ctx, func(ctx context.Context) (bool, error) {
			switch action.Status {
			case godo.ActionCompleted:
				return true, nil
			case "errored":
				return false, fmt.Errorf("action %d ended with an error", action.ID)
			}
			action, _, err = p.client.StorageActions.Get(ctx, v.ID, action.ID)
			return false, err
		})
	}
	if err != nil {
		return volumes.Settle(ctx, p, v, err)
	}
	v.Machine, v.Here = strconv.Itoa(d.ID), true
	return v, nil
}

func (p *provider) Nodes(ctx context.Context) ([]volumes.Node, error) {
	d, err := p.droplet(ctx)
	if err != nil {
		return nil, err
	}
	found, err := p.list(ctx, d, "", nil)
	if err != nil {
		return nil, err
	}
	return p.NodesBy(found, "droplet", func(id string) ([]string, error) {
		n, err := strconv.Atoi(id)
		if err != nil {
			return nil, nil
		}
		g, resp, err := p.client.Droplets.Get(ctx, n)
		if resp != nil && resp.StatusCode == http.StatusNotFound {
			err = fmt.Errorf("%w: %w", volumes.ErrMachineGone, err)
		}
		if err != nil {
			return nil, err
		}
		if a, err := g.PrivateIPv4(); err == nil && a != "" {
			return []string{a}, nil
		}
		return nil, nil
	})
}
