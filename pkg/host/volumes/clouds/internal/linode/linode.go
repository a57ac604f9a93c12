// Package linode finds and attaches volumes of Linode (Akamai).
package linode

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
)

const (
	metadataURL = "http://169.254.169.254/v1"
	apiURL      = "https://api.linode.com/v4"
	// separators are those between key and value of a tag, in flags and on volumes.
	separators = ":="
)

type provider struct {
	volumes.Options
	api
	// metadata and its client are where a machine learns who it is.
	metadata string
	local    *http.Client
	self     volumes.Lazy[instance]
}

// An instance is this machine.
type instance struct {
	id     int
	region string
}

// New returns the provider of Linode, with the token of LINODE_TOKEN.
func New(_ context.Context, o volumes.Options) (volumes.Provider, error) {
	token := os.Getenv("LINODE_TOKEN")
	if token == "" {
		return nil, errors.New("the variable LINODE_TOKEN has no token of the API")
	}
	if err := o.Need(); err != nil {
		return nil, err
	}
	return &provider{Options: o, api: api{apiURL, token, web()}, metadata: metadataURL, local: volumes.Local()}, nil
}

func (p *provider) instance(ctx context.Context) (instance, error) {
	return p.self.Get(ctx, func(ctx context.Context) (i instance, err error) {
		token, err := volumes.Metadata(ctx, p.local, http.MethodPut, p.metadata+"/token",
			"Metadata-Token-Expiry-Seconds", "300")
		if err != nil {
			return i, err
		}
		text, err := volumes.Metadata(ctx, p.local, http.MethodGet, p.metadata+"/instance",
			"Metadata-Token", strings.TrimSpace(token))
		if err != nil {
			return i, err
		}
		for line := range strings.Lines(text) {
			key, value, _ := strings.Cut(line, ":")
			switch strings.TrimSpace(key) {
			case "id":
				i.id, err = strconv.Atoi(strings.TrimSpace(value))
			case "region":
				i.region = strings.TrimSpace(value)
			}
		}
		if err != nil || i.id == 0 || i.region == "" {
			return i, errors.New("metadata does not have both id and region")
		}
		return i, nil
	})
}

func (p *provider) Address(ctx context.Context) (string, error) {
	i, err := p.instance(ctx)
	if err != nil {
		return "", err
	}
	a, err := p.address(ctx, i.id)
	if err == nil && a == "" {
		err = fmt.Errorf("instance %d has no private IPv4 address; give it one, or set --address", i.id)
	}
	return a, err
}

// Find returns the volumes in the instance's region. The name tag of kops is that
// of the instance group: it selects.
func (p *provider) Find(ctx context.Context) ([]volumes.Volume, error) {
	i, err := p.instance(ctx)
	if err != nil {
		return nil, err
	}
	tags := slices.Clone(p.Tags)
	if p.NameTag != "" {
		tags = append(tags, p.NameTag)
	}
	return p.list(ctx, i, i.region, tags)
}

// list returns the volumes with the tags in a region, "" for all.
func (p *provider) list(ctx context.Context, self instance, region string, tags []string) ([]volumes.Volume, error) {
	all, err := p.volumes(ctx)
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	want := volumes.ParseTags(tags, separators)
	var found []volumes.Volume
	for _, l := range all {
		has := map[string]string{}
		for _, t := range volumes.ParseTags(l.Tags, separators) {
			has[t.Key] = t.Value
		}
		if region != "" && l.Region != region || !volumes.Tagged(want, has) {
			continue
		}
		found = append(found, l.volume(self.id))
	}
	return found, nil
}

func (p *provider) Attach(ctx context.Context, v volumes.Volume) (volumes.Volume, error) {
	self, err := p.instance(ctx)
	if err != nil {
		return v, err
	}
	err = p.attach(ctx, v.ID, self.id)
	if err == nil {
		err = volumes.Until(ctx, func(ctx context.Context) (bool, error) {
			l, err := p.get(ctx, v.ID)
			if err != nil {
				return false, err
			}
			// Its device is known now, if it was not before.
			v = l.volume(self.id)
			if v.Machine != "" && !v.Here {
				return false, fmt.Errorf("it was not attached, it is at instance %s", v.Machine)
			}
			return v.Here && l.Status == active, nil
		})
	}
	if err != nil {
		return volumes.Settle(ctx, p, v, err)
	}
	return v, nil
}

// Nodes looks in all regions.
func (p *provider) Nodes(ctx context.Context) ([]volumes.Node, error) {
	self, err := p.instance(ctx)
	if err != nil {
		return nil, err
	}
	found, err := p.list(ctx, self, "", p.Tags)
	if err != nil {
		return nil, err
	}
	return p.NodesBy(found, "instance", func(id string) ([]string, error) {
		n, err := strconv.Atoi(id)
		if err != nil {
			return nil, nil
		}
		a, err := p.address(ctx, n)
		if errors.Is(err, errAbsent) {
			err = fmt.Errorf("%w: %w", volumes.ErrMachineGone, err)
		}
		if err != nil || a == "" {
			return nil, err
		}
		return []string{a}, nil
	})
}
