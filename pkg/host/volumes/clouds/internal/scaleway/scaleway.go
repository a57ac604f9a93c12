// Package scaleway finds and attaches block volumes of Scaleway.
package scaleway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/scaleway/scaleway-sdk-go/scw"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
)

// metadataURLs are where a machine learns who it is, one of them without IPv4.
var metadataURLs = []string{"http://169.254.42.42", "http://[fd00:42::42]"}

type provider struct {
	volumes.Options
	api
	// metadata and its client are where a machine learns who it is.
	metadata []string
	local    *http.Client
	self     volumes.Lazy[server]
}

// A server is this machine.
type server struct {
	id   string
	zone scw.Zone
}

// New returns the provider of Scaleway, with the keys of SCW_ACCESS_KEY and
// SCW_SECRET_KEY, for the project of SCW_DEFAULT_PROJECT_ID.
func New(_ context.Context, o volumes.Options) (volumes.Provider, error) {
	if err := o.Need(); err != nil {
		return nil, err
	}
	return open(o, os.Getenv("SCW_API_URL"), metadataURLs, volumes.Local())
}

func open(o volumes.Options, url string, metadata []string, local *http.Client) (*provider, error) {
	key, secret, project := os.Getenv("SCW_ACCESS_KEY"), os.Getenv("SCW_SECRET_KEY"), os.Getenv("SCW_DEFAULT_PROJECT_ID")
	if key == "" || secret == "" {
		return nil, errors.New("the variables SCW_ACCESS_KEY and SCW_SECRET_KEY do not both have keys of the API")
	}
	set := []scw.ClientOption{scw.WithAuth(key, secret), scw.WithUserAgent("etcdadm")}
	if url != "" {
		set = append(set, scw.WithAPIURL(url))
	}
	client, err := scw.NewClient(set...)
	switch {
	case err != nil && strings.Contains(err.Error(), secret):
		// The SDK would show it.
		return nil, errors.New("the secret key in SCW_SECRET_KEY is not of the form xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")
	case err != nil:
		return nil, fmt.Errorf("client of Scaleway: %w", err)
	}
	return &provider{Options: o, api: api{client, project}, metadata: metadata, local: local}, nil
}

func (p *provider) server(ctx context.Context) (server, error) {
	return p.self.Get(ctx, func(ctx context.Context) (server, error) {
		var wrong []error
		for _, url := range p.metadata {
			s, err := p.ask(ctx, url+"/conf?format=json")
			if err == nil {
				return s, nil
			}
			wrong = append(wrong, err)
		}
		return server{}, errors.Join(wrong...)
	})
}

func (p *provider) ask(ctx context.Context, url string) (server, error) {
	var m struct {
		ID       string
		Location struct {
			Zone string `json:"zone_id"`
		}
	}
	text, err := volumes.Metadata(ctx, p.local, http.MethodGet, url)
	if err == nil {
		err = json.Unmarshal([]byte(text), &m)
	}
	if err != nil {
		return server{}, err
	}
	zone, err := scw.ParseZone(m.Location.Zone)
	if err == nil && m.ID == "" {
		err = errors.New("metadata has no id")
	}
	return server{m.ID, zone}, err
}

func (p *provider) Address(ctx context.Context) (string, error) {
	s, err := p.server(ctx)
	if err != nil {
		return "", err
	}
	all, err := p.addresses(ctx, s.zone, s.id)
	if err != nil {
		return "", err
	}
	if a := all[s.id]; a != "" {
		return a, nil
	}
	return "", fmt.Errorf("server %s has no address of IPv4 in IPAM; give it one, or set --address", s.id)
}

func (p *provider) Find(ctx context.Context) ([]volumes.Volume, error) {
	s, err := p.server(ctx)
	if err != nil {
		return nil, err
	}
	// The name tag of kops is that of the instance group: it selects.
	tags := slices.Clone(p.Tags)
	if p.NameTag != "" {
		tags = append(tags, p.NameTag)
	}
	return p.list(ctx, s, s.zone, tags)
}

// list returns the volumes with all of the tags in a zone.
func (p *provider) list(ctx context.Context, s server, zone scw.Zone, tags []string) ([]volumes.Volume, error) {
	all, err := p.volumes(ctx, zone, tags)
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	var found []volumes.Volume
	for _, b := range all {
		if slices.ContainsFunc(tags, func(t string) bool { return !slices.Contains(b.Tags, t) }) {
			continue
		}
		v := volumes.Volume{
			ID: b.ID, Node: "vol-" + b.ID, MountName: "scw-" + b.ID,
			Devices: []string{"/dev/disk/by-id/scsi-0SCW_b_ssd_volume-" + b.ID},
		}
		switch {
		case b.Server.ID != "":
			v.Machine, v.Here = b.Server.ID, b.Server.ID == s.id
		case b.State != available:
			v.Busy = "has the state " + b.State
		}
		found = append(found, v)
	}
	return found, nil
}

func (p *provider) Attach(ctx context.Context, v volumes.Volume) (volumes.Volume, error) {
	s, err := p.server(ctx)
	if err != nil {
		return v, err
	}
	err = p.attach(ctx, s, v.ID)
	if err == nil {
		err = volumes.Until(ctx, func(ctx context.Context) (bool, error) {
			b, err := p.volume(ctx, s.zone, v.ID)
			if err == nil && b.Server.ID != s.id {
				err = fmt.Errorf("it was not attached, its state is %s", b.State)
			}
			return err == nil && b.State == available, err
		})
	}
	if err != nil {
		return volumes.Settle(ctx, p, v, err)
	}
	v.Machine, v.Here = s.id, true
	return v, nil
}

// Nodes looks in all zones of the region. One that Scaleway does not have is left
// out.
func (p *provider) Nodes(ctx context.Context) ([]volumes.Node, error) {
	s, err := p.server(ctx)
	if err != nil {
		return nil, err
	}
	region, err := s.zone.Region()
	if err != nil {
		return nil, err
	}
	zones := region.GetZones()
	if !slices.Contains(zones, s.zone) {
		zones = append(zones, s.zone)
	}
	var found []volumes.Volume
	for _, zone := range zones {
		here, err := p.list(ctx, s, zone, p.Tags)
		if zone != s.zone && absent(err) {
			p.Log.Info("a zone of the region has no servers", "zone", zone, "error", err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("zone %s: %w", zone, err)
		}
		found = append(found, here...)
	}
	byServer, err := p.addresses(ctx, s.zone, volumes.Machines(found)...)
	if err != nil {
		return nil, err
	}
	addresses := map[string][]string{}
	for id, a := range byServer {
		addresses[id] = []string{a}
	}
	return volumes.NodesOf(found, addresses), nil
}
