package scaleway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/scaleway/scaleway-sdk-go/scw"
)

// An api asks Scaleway. Credentials and errors are the SDK's; its clients of the
// services are not needed: see docs/decisions/0148.
type api struct {
	client  *scw.Client
	project string
}

// blockStorage is the type of kops' volumes, available their state in which they
// can be attached, or are.
const (
	blockStorage = "b_ssd"
	available    = "available"
	perPage      = "100" // the most that there are
)

// A counted answer is one page of several. The core of the SDK gives it the
// number of items in all of them.
type counted struct{ total int }

// UnsafeSetTotalCount is a method that the core of the SDK looks for.
func (c *counted) UnsafeSetTotalCount(total int) { c.total = total }

// A block is a volume.
type block struct {
	ID     string
	Tags   []string
	State  string
	Server struct{ ID string }
}

// get reads the answer of a resource into out.
func (a api) get(ctx context.Context, path string, query url.Values, out any) error {
	req := &scw.ScalewayRequest{Method: http.MethodGet, Path: path, Query: query}
	return a.client.Do(req, out, scw.WithContext(ctx))
}

// absent says that an error is the answer "not found".
func absent(err error) bool {
	var answer *scw.ResponseError
	var named *scw.ResourceNotFoundError
	return errors.As(err, &named) || errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
}

func zonePath(zone scw.Zone) string { return "/instance/v1/zones/" + zone.String() }

// volumes returns those in a zone that have all of the tags.
func (a api) volumes(ctx context.Context, zone scw.Zone, tags []string) ([]block, error) {
	query := url.Values{"per_page": {perPage}, "volume_type": {blockStorage}}
	if a.project != "" {
		query.Set("project", a.project)
	}
	for i, t := range tags {
		// Tags are one value.
		if i > 0 {
			t = query.Get("tags") + "," + t
		}
		query.Set("tags", t)
	}
	var all []block
	for page := 1; ; page++ {
		query.Set("page", strconv.Itoa(page))
		var answer struct {
			counted
			Volumes []block
		}
		if err := a.get(ctx, zonePath(zone)+"/volumes", query, &answer); err != nil {
			return nil, err
		}
		all = append(all, answer.Volumes...)
		if len(answer.Volumes) == 0 || answer.total > 0 && len(all) >= answer.total {
			return all, nil
		}
	}
}

func (a api) volume(ctx context.Context, zone scw.Zone, id string) (block, error) {
	var answer struct{ Volume block }
	err := a.get(ctx, zonePath(zone)+"/volumes/"+url.PathEscape(id), nil, &answer)
	return answer.Volume, err
}

// attach asks for a volume to be attached.
func (a api) attach(ctx context.Context, s server, volume string) error {
	req := &scw.ScalewayRequest{
		Method: http.MethodPost, Path: zonePath(s.zone) + "/servers/" + url.PathEscape(s.id) + "/attach-volume",
	}
	if err := req.SetBody(map[string]string{"volume_id": volume, "volume_type": blockStorage}); err != nil {
		return err
	}
	return a.client.Do(req, nil, scw.WithContext(ctx))
}

// addresses returns the first address of IPv4 of each server in the region of a
// zone.
func (a api) addresses(ctx context.Context, zone scw.Zone, servers ...string) (map[string]string, error) {
	found := map[string]string{}
	if len(servers) == 0 {
		return found, nil
	}
	region, err := zone.Region()
	if err != nil {
		return nil, err
	}
	query := url.Values{"resource_ids": servers, "is_ipv6": {"false"}, "page_size": {perPage}}
	for page, seen := 1, 0; ; page++ {
		query.Set("page", strconv.Itoa(page))
		var answer struct {
			Total int `json:"total_count"`
			IPs   []struct {
				Address  string
				Resource struct{ ID string }
			}
		}
		if err := a.get(ctx, "/ipam/v1/regions/"+region.String()+"/ips", query, &answer); err != nil {
			return nil, fmt.Errorf("list addresses: %w", err)
		}
		for _, ip := range answer.IPs {
			// It comes with the length of its network.
			if n, err := netip.ParsePrefix(ip.Address); err == nil && found[ip.Resource.ID] == "" {
				found[ip.Resource.ID] = n.Addr().String()
			}
		}
		if seen += len(answer.IPs); len(answer.IPs) == 0 || answer.Total > 0 && seen >= answer.Total {
			return found, nil
		}
	}
}
