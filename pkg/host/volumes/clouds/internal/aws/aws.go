// Package aws finds and attaches EBS volumes. It makes three calls:
// DescribeVolumes, DescribeInstances and AttachVolume.
package aws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/internal/proxies"
)

// devices are the names asked for. On Nitro machines the device has another
// one.
var devices = []string{"/dev/xvdu", "/dev/xvdv", "/dev/xvdw", "/dev/xvdx", "/dev/xvdy", "/dev/xvdz"}

// roots are the names of the disks that machines are started from.
var roots = []string{"/dev/sda1", "/dev/xvda"}

type provider struct {
	volumes.Options
	tags     []volumes.Tag
	config   aws.Config
	metadata *imds.Client
	endpoint string
	self     volumes.Lazy[machine]
}

// A machine is this one.
type machine struct {
	id, zone string
	ec2      *ec2
}

// New returns the provider of AWS, with the SDK's chain of configuration.
func New(ctx context.Context, o volumes.Options) (volumes.Provider, error) {
	if err := o.Need(); err != nil {
		return nil, err
	}
	// Sources of credentials keep the context.
	cfg, err := config.LoadDefaultConfig(context.WithoutCancel(ctx), config.WithHTTPClient(web()))
	if err != nil {
		return nil, fmt.Errorf("read the configuration of AWS: %w", err)
	}
	local := func(o *imds.Options) { o.HTTPClient = volumes.Local() }
	return open(o, cfg, imds.NewFromConfig(cfg, local), os.Getenv("AWS_ENDPOINT_URL_EC2")), nil
}

// web returns a client that asks for the credentials of the machine past any proxy.
func web() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.Proxy = proxies.Of })
}

// open returns the provider for an EC2 at an address of its own, "" for that of
// the region.
func open(o volumes.Options, cfg aws.Config, metadata *imds.Client, endpoint string) *provider {
	return &provider{
		Options: o, tags: volumes.ParseTags(o.Tags, "="), config: cfg, metadata: metadata, endpoint: endpoint,
	}
}

func (p *provider) machine(ctx context.Context) (machine, error) {
	return p.self.Get(ctx, func(ctx context.Context) (machine, error) {
		id, err := p.ask(ctx, "instance-id")
		if err != nil {
			return machine{}, err
		}
		zone, err := p.ask(ctx, "placement/availability-zone")
		if err != nil {
			return machine{}, err
		}
		// AWS_REGION need not be this machine's.
		region, err := p.metadata.GetRegion(ctx, nil)
		if err != nil {
			return machine{}, fmt.Errorf("ask for metadata region: %w", err)
		}
		c := &ec2{config: p.config, region: region.Region, endpoint: p.endpoint}
		if c.endpoint == "" {
			c.endpoint = endpointOf(c.region, os.Getenv("AWS_USE_DUALSTACK_ENDPOINT") == "true")
		}
		return machine{id, zone, c}, nil
	})
}

// ask returns a piece of metadata.
func (p *provider) ask(ctx context.Context, path string) (string, error) {
	out, err := p.metadata.GetMetadata(ctx, &imds.GetMetadataInput{Path: path})
	if err != nil {
		return "", fmt.Errorf("ask for metadata %s: %w", path, err)
	}
	defer out.Content.Close()
	text, err := io.ReadAll(out.Content)
	if err != nil {
		return "", fmt.Errorf("ask for metadata %s: %w", path, err)
	}
	return string(text), nil
}

func (p *provider) Address(ctx context.Context) (string, error) {
	a, err := p.ask(ctx, "ipv6")
	var refused *smithyhttp.ResponseError
	if errors.As(err, &refused) && refused.HTTPStatusCode() == http.StatusNotFound {
		return p.ask(ctx, "local-ipv4")
	}
	return a, err
}

func (p *provider) Find(ctx context.Context) ([]volumes.Volume, error) {
	m, err := p.machine(ctx)
	if err != nil {
		return nil, err
	}
	return p.list(ctx, m, m.zone)
}

// list returns the cluster's volumes in a zone, "" for all of them.
func (p *provider) list(ctx context.Context, m machine, zone string) ([]volumes.Volume, error) {
	form := url.Values{"MaxResults": {"500"}}
	for i, t := range p.tags {
		if t.Any {
			filter(form, i+1, "tag-key", t.Key)
		} else {
			filter(form, i+1, "tag:"+t.Key, t.Value)
		}
	}
	if zone != "" {
		filter(form, len(p.tags)+1, "availability-zone", zone)
	}
	found, err := m.ec2.volumes(ctx, form)
	if err != nil {
		return nil, err
	}
	var list []volumes.Volume
	for _, e := range found {
		if v, ok := p.volume(m, e); ok {
			list = append(list, v)
		}
	}
	return list, nil
}

// volume returns nothing for the disk that a machine was started from.
func (p *provider) volume(m machine, e ebs) (volumes.Volume, bool) {
	name := ""
	for _, t := range e.Tags {
		if t.Key == p.NameTag {
			name = t.Value
		}
	}
	v := volumes.Volume{ID: e.ID, Node: p.NodeName(name, e.ID), MountName: "master-" + e.ID}
	for _, a := range e.Attachments {
		if slices.Contains(roots, a.Device) {
			return v, false
		}
		if a.Status == "detached" {
			continue
		}
		v.Machine = a.Instance
		v.Here = a.Instance == m.id && a.Status != "detaching"
		v.Devices = []string{
			"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_" + strings.ReplaceAll(e.ID, "-", ""), a.Device,
		}
	}
	return v, true
}

func (p *provider) Attach(ctx context.Context, v volumes.Volume) (volumes.Volume, error) {
	m, err := p.machine(ctx)
	if err != nil {
		return v, err
	}
	for _, d := range devices {
		var ignored struct{}
		err = m.ec2.call(ctx, "AttachVolume", url.Values{"VolumeId": {v.ID}, "InstanceId": {m.id}, "Device": {d}}, &ignored)
		var refused *apiError
		if !errors.As(err, &refused) || refused.Code != "InvalidParameterValue" {
			break
		}
	}
	var refused *apiError
	if err != nil && (!errors.As(err, &refused) || refused.Code != "VolumeInUse" && refused.Code != "IncorrectState") {
		return v, err
	}
	asked := err
	// An attachment is shown some time after it was made, and made some time
	// after it is shown.
	err = volumes.Until(ctx, func(ctx context.Context) (bool, error) {
		found, err := m.ec2.volumes(ctx, url.Values{"VolumeId.1": {v.ID}})
		if err != nil || len(found) != 1 {
			return false, err
		}
		v, _ = p.volume(m, found[0])
		switch {
		case v.Machine != "" && v.Machine != m.id:
			return false, volumes.ErrTaken
		case v.Machine == "" && asked != nil:
			return false, asked
		}
		return v.Here && slices.ContainsFunc(found[0].Attachments, func(a attachment) bool {
			return a.Instance == m.id && a.Status == "attached"
		}), nil
	})
	return v, err
}

func (p *provider) Nodes(ctx context.Context) ([]volumes.Node, error) {
	m, err := p.machine(ctx)
	if err != nil {
		return nil, err
	}
	found, err := p.list(ctx, m, "")
	machines := volumes.Machines(found)
	if err != nil || len(machines) == 0 {
		return nil, err
	}
	known, err := m.ec2.instances(ctx, machines)
	if err != nil {
		return nil, err
	}
	addresses := map[string][]string{}
	for _, i := range known {
		addresses[i.ID] = i.addresses()
	}
	return volumes.NodesOf(found, addresses), nil
}

// addresses are IPv6 ones where there are any, otherwise those of IPv4.
func (i instance) addresses() []string {
	six, four := []string{i.Address6}, []string{i.Address}
	for _, n := range i.Interfaces {
		six, four = append(six, n.Addresses6...), append(four, n.Addresses...)
	}
	for _, all := range [][]string{six, four} {
		slices.SortStableFunc(all[1:], strings.Compare)
		var list []string
		for _, a := range all {
			if a != "" && !slices.Contains(list, a) {
				list = append(list, a)
			}
		}
		if len(list) > 0 {
			return list
		}
	}
	return nil
}
