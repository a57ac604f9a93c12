package linode

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
)

// An api asks Linode. Its SDK is many times the size of the rest: see
// docs/decisions/0148.
type api struct {
	url, token string
	client     *http.Client
}

const (
	// active is the status of a volume that can be attached, or is.
	active  = "active"
	perPage = 100
	// maxAnswer is how much of an answer is read, maxReason how much of why a call
	// was refused is reported.
	maxAnswer = 8 << 20
	maxReason = 500
)

// errAbsent is in the error of a call for what is not there.
var errAbsent = errors.New("there is none")

// web returns a client for the API, through a proxy if there is one.
func web() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true, IdleConnTimeout: 30 * time.Second,
	}}
}

// do makes a call and reads its answer into out.
func (a api) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader = http.NoBody
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "etcdadm")
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode != http.StatusOK {
		err := fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text[:min(len(text), maxReason)])
		if resp.StatusCode == http.StatusNotFound {
			err = fmt.Errorf("%w: %w", errAbsent, err)
		}
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// A disk is a volume.
type disk struct {
	ID       int
	Label    string
	Status   string
	Region   string
	LinodeID int    `json:"linode_id"`
	Path     string `json:"filesystem_path"`
	Tags     []string
}

// volume says of a disk what is known to all clouds.
func (d disk) volume(self int) volumes.Volume {
	id := strconv.Itoa(d.ID)
	v := volumes.Volume{
		ID: id, Node: "vol-" + id, MountName: "linode-" + id,
		Devices: []string{cmp.Or(d.Path, "/dev/disk/by-id/linode-volume-"+d.Label)},
	}
	switch {
	case d.LinodeID != 0:
		v.Machine, v.Here = strconv.Itoa(d.LinodeID), d.LinodeID == self
	case d.Status != active:
		v.Busy = "has the status " + d.Status
	}
	return v
}

// listings is how often volumes are listed until their number stays the same meanwhile.
const listings = 5

// volumes returns all of the account. Where one of the first pages goes meanwhile, one of
// the next would not be seen: then it lists again.
func (a api) volumes(ctx context.Context) ([]disk, error) {
	for range listings {
		all, steady, err := a.listed(ctx)
		if err != nil || steady {
			return all, err
		}
	}
	return nil, fmt.Errorf("list volumes: their number changed in each of %d listings", listings)
}

// listed lists the volumes once, and says whether their number has not changed meanwhile.
func (a api) listed(ctx context.Context) (all []disk, steady bool, err error) {
	number := -1
	for page := 1; ; page++ {
		var answer struct {
			Data           []disk
			Pages, Results int
		}
		err := a.do(ctx, http.MethodGet, fmt.Sprintf("/volumes?page=%d&page_size=%d", page, perPage), nil, &answer)
		if err != nil {
			return nil, false, err
		}
		if number < 0 {
			number = answer.Results
		}
		all = append(all, answer.Data...)
		if page >= answer.Pages {
			return all, answer.Results == number && len(all) == number, nil
		}
	}
}

func (a api) get(ctx context.Context, volume string) (disk, error) {
	var d disk
	err := a.do(ctx, http.MethodGet, "/volumes/"+volume, nil, &d)
	return d, err
}

// attach asks for a volume to be attached.
func (a api) attach(ctx context.Context, volume string, to int) error {
	return a.do(ctx, http.MethodPost, "/volumes/"+volume+"/attach", map[string]int{"linode_id": to}, &disk{})
}

// address returns an instance's private address of IPv4: the one that Linode
// calls so, else that in a VPC, else one of the instance's that is, "" for none.
func (a api) address(ctx context.Context, id int) (string, error) {
	type address struct{ Address string }
	var ips struct {
		IPv4 struct{ Private, VPC []address } `json:"ipv4"`
	}
	at := "/linode/instances/" + strconv.Itoa(id)
	if err := a.do(ctx, http.MethodGet, at+"/ips", nil, &ips); err != nil {
		return "", err
	}
	for _, list := range [][]address{ips.IPv4.Private, ips.IPv4.VPC} {
		for _, a := range list {
			if a.Address != "" {
				return a.Address, nil
			}
		}
	}
	var linode struct{ IPv4 []string }
	if err := a.do(ctx, http.MethodGet, at, nil, &linode); err != nil {
		return "", err
	}
	for _, text := range linode.IPv4 {
		if ip, err := netip.ParseAddr(text); err == nil && ip.Is4() && ip.IsPrivate() {
			return text, nil
		}
	}
	return "", nil
}
