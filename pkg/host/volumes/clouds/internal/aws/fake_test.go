package aws

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"github.com/etcdadm/etcdadm/pkg/host/volumes/volumestest"
)

// A fake is EC2 and the metadata of one machine.
type fake struct {
	t *testing.T
	w *volumestest.World
	// refuseToken says that metadata has no tokens.
	refuseToken bool
	// six is the machine's IPv6 address.
	six string
	// calls are the actions that were called.
	mu    sync.Mutex
	calls map[string]bool
}

func (f *fake) serve(t *testing.T) *provider {
	f.calls = map[string]bool{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /ec2", f.api)
	mux.HandleFunc("PUT /latest/api/token", f.token)
	mux.HandleFunc("GET /latest/", f.metadata)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	cfg := aws.Config{
		Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "session"), HTTPClient: s.Client(),
	}
	o := volumestest.KopsOptions("aws")
	return open(o, cfg, imds.NewFromConfig(cfg, func(o *imds.Options) { o.Endpoint = s.URL }), s.URL+"/ec2")
}

func (f *fake) token(w http.ResponseWriter, r *http.Request) {
	if f.refuseToken {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
	fmt.Fprint(w, "token")
}

func (f *fake) metadata(w http.ResponseWriter, r *http.Request) {
	if !f.w.Metadata() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if !f.refuseToken && r.Header.Get("X-Aws-Ec2-Metadata-Token") != "token" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	text, ok := map[string]string{
		"/latest/meta-data/instance-id":                 f.w.Self.ID,
		"/latest/meta-data/placement/availability-zone": f.w.Self.Zone,
		"/latest/meta-data/local-ipv4":                  f.w.Self.Addresses[0],
		"/latest/meta-data/ipv6":                        f.six,
		"/latest/dynamic/instance-identity/document":    `{"region": "us-test-1"}`,
	}[r.URL.Path]
	if !ok || text == "" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	fmt.Fprint(w, text)
}

func (f *fake) api(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	form, err := url.ParseQuery(string(body))
	if err != nil || !strings.Contains(r.Header.Get("Authorization"), "/us-test-1/ec2/aws4_request") ||
		r.Header.Get("X-Amz-Security-Token") != "session" || form.Get("Version") == "" {
		f.t.Errorf("a request that is not signed: %v %s", r.Header, body)
	}
	f.mu.Lock()
	f.calls[form.Get("Action")] = true
	f.mu.Unlock()
	switch {
	case !f.w.Call():
		refuse(w, http.StatusServiceUnavailable, "RequestLimitExceeded")
	case form.Get("Action") == "DescribeVolumes":
		f.describeVolumes(w, form)
	case form.Get("Action") == "DescribeInstances":
		f.describeInstances(w, form)
	case form.Get("Action") == "AttachVolume":
		f.attach(w, form)
	default:
		f.t.Errorf("a call that kops does not grant: %s", form)
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>%s</Code><Message>no</Message>`+
		`</Error></Errors><RequestID>1</RequestID></Response>`, code)
}

// filters returns the values of each filter.
func filters(form url.Values) map[string][]string {
	all := map[string][]string{}
	for i := 1; form.Has(fmt.Sprintf("Filter.%d.Name", i)); i++ {
		name := form.Get(fmt.Sprintf("Filter.%d.Name", i))
		for j := 1; form.Has(fmt.Sprintf("Filter.%d.Value.%d", i, j)); j++ {
			all[name] = append(all[name], form.Get(fmt.Sprintf("Filter.%d.Value.%d", i, j)))
		}
	}
	return all
}

func (f *fake) describeVolumes(w http.ResponseWriter, form url.Values) {
	found := f.w.List(func(d volumestest.Disk) bool {
		if id := form.Get("VolumeId.1"); id != "" {
			return d.ID == id
		}
		for name, values := range filters(form) {
			key, isTag := strings.CutPrefix(name, "tag:")
			_, has := d.Tags[values[0]]
			if isTag && d.Tags[key] != values[0] || name == "tag-key" && !has ||
				name == "availability-zone" && d.Zone != values[0] {
				return false
			}
		}
		return true
	})
	at, _ := strconv.Atoi(form.Get("NextToken"))
	page, next := volumestest.Cut(f.w, found, at)
	var answer struct {
		XMLName xml.Name `xml:"DescribeVolumesResponse"`
		Volumes []ebs    `xml:"volumeSet>item"`
		Next    string   `xml:"nextToken,omitempty"`
	}
	if next > 0 {
		answer.Next = strconv.Itoa(next)
	}
	for _, d := range page {
		e := ebs{ID: d.ID}
		if d.Machine != "" {
			e.Attachments = []attachment{{d.Machine, d.Device, "attached"}}
		}
		for k, v := range d.Tags {
			e.Tags = append(e.Tags, tag{k, v})
		}
		answer.Volumes = append(answer.Volumes, e)
	}
	send(f.t, w, answer)
}

func send(t *testing.T, w io.Writer, answer any) {
	text, err := xml.Marshal(answer)
	if err != nil {
		t.Error(err)
	}
	_, _ = w.Write(text)
}

func (f *fake) describeInstances(w http.ResponseWriter, form url.Values) {
	type item struct {
		Instances []instance `xml:"instancesSet>item"`
	}
	var answer struct {
		XMLName      xml.Name `xml:"DescribeInstancesResponse"`
		Reservations []item   `xml:"reservationSet>item"`
	}
	for _, id := range filters(form)["instance-id"] {
		if m := f.w.Machine(id); m != nil {
			i := instance{ID: m.ID, Address: m.Addresses[0]}
			i.Interfaces = append(i.Interfaces, struct {
				Addresses  []string `xml:"privateIpAddressesSet>item>privateIpAddress"`
				Addresses6 []string `xml:"ipv6AddressesSet>item>ipv6Address"`
			}{Addresses: m.Addresses})
			answer.Reservations = append(answer.Reservations, item{[]instance{i}})
		}
	}
	send(f.t, w, answer)
}

func (f *fake) attach(w http.ResponseWriter, form url.Values) {
	id, machine, device := form.Get("VolumeId"), form.Get("InstanceId"), form.Get("Device")
	if f.w.DeviceUsed(machine, device) {
		refuse(w, http.StatusBadRequest, "InvalidParameterValue")
		return
	}
	switch err := f.w.Attach(id, machine, device); {
	case errors.Is(err, volumestest.ErrLost):
		volumestest.Break()
	case err != nil:
		refuse(w, http.StatusBadRequest, "VolumeInUse")
	default:
		fmt.Fprint(w, `<AttachVolumeResponse><status>attaching</status></AttachVolumeResponse>`)
	}
}
