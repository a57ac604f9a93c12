package harness

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// metadataAddress is where machines of AWS ask about themselves.
const metadataAddress = "169.254.169.254"

// ec2Region and ec2Zone are where all machines are.
const ec2Region, ec2Zone = "us-test-1", "us-test-1a"

// An EC2 answers as Amazon's does, over HTTP: about volumes and machines, and to each
// machine about itself. It knows what kops grants to machines and nothing else.
type EC2 struct {
	c       *Cluster
	servers servers

	mu       sync.Mutex
	volumes  []*Volume
	machines []*Machine
	replaced map[*Machine]int // how often
	wrong    []error          // what is to fail the test: answers are given beside it
}

// NewEC2 returns one without volumes.
func (c *Cluster) NewEC2() *EC2 {
	e := &EC2{c: c, replaced: map[*Machine]int{}}
	c.clouds = append(c.clouds, e)
	return e
}

// Volume makes a disk of that many MiB with the tags of kops: for the member of an etcd
// cluster, in the Kubernetes cluster with that name.
func (e *EC2) Volume(kubernetes, etcd, member string, mib int64) *Volume {
	e.c.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.c.volume(fmt.Sprintf("vol-%017x", len(e.volumes)+1), mib)
	v.mount, v.link = "master-"+v.ID, "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_"+strings.ReplaceAll(v.ID, "-", "")
	v.ec2, v.Tags = e, map[string]string{
		"Name":                                member + ".etcd-" + etcd + "." + kubernetes,
		"k8s.io/etcd/" + etcd:                 member + "/a,b,c",
		"KubernetesCluster":                   kubernetes,
		"k8s.io/role/master":                  "1",
		"k8s.io/role/control-plane":           "1",
		"kubernetes.io/cluster/" + kubernetes: "owned",
	}
	v.attached = func(m *Machine) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return v.at == e.instanceOf(m)
	}
	e.volumes = append(e.volumes, v)
	return v
}

// Serve answers a machine, and returns the variables of its pod.
func (e *EC2) Serve(m *Machine) []string {
	e.c.t.Helper()
	e.mu.Lock()
	e.machines = append(e.machines, m)
	e.mu.Unlock()
	e.serve(m)
	return []string{"AWS_REGION=" + ec2Region, "AWS_ENDPOINT_URL_EC2=http://" + metadataAddress + "/ec2"}
}

// replace gives a machine that is off another identity and, by moved, another address.
func (e *EC2) replace(m *Machine, moved func()) {
	e.c.t.Helper()
	e.mu.Lock()
	moved()
	e.replaced[m]++
	e.mu.Unlock()
	e.serve(m)
}

// serve answers in the network that the machine has now.
func (e *EC2) serve(m *Machine) {
	e.c.t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /ec2", func(w http.ResponseWriter, r *http.Request) { e.api(m, w, r) })
	mux.HandleFunc("PUT /latest/api/token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
		fmt.Fprint(w, "token")
	})
	mux.HandleFunc("GET /latest/", func(w http.ResponseWriter, r *http.Request) { e.metadata(m, w, r) })
	e.servers.serve(m, metadataAddress, mux, nil)
}

// close comes when no daemon runs any more, and waits for what is being answered.
func (e *EC2) close() {
	e.servers.shut(e.c)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, err := range e.wrong {
		e.c.t.Errorf("the cloud: %v", err)
	}
}

// fail answers that the cloud is broken, and has the test fail when it ends.
func (e *EC2) fail(w http.ResponseWriter, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wrong = append(e.wrong, err)
	w.WriteHeader(http.StatusInternalServerError)
}

// instanceOf is for who has locked e.
func (e *EC2) instanceOf(m *Machine) string { return fmt.Sprintf("i-%s-%d", m.Name, e.replaced[m]) }

func (e *EC2) metadata(m *Machine, w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key, _ := json.Marshal(map[string]string{"Code": "Success", "AccessKeyId": "key", "SecretAccessKey": "secret",
		"Token": "session", "Expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
	address := "local-ipv4"
	if e.c.Net.six {
		address = "ipv6"
	}
	text, ok := map[string]string{
		"/latest/meta-data/instance-id":                      e.instanceOf(m),
		"/latest/meta-data/placement/availability-zone":      ec2Zone,
		"/latest/meta-data/" + address:                       m.Address,
		"/latest/dynamic/instance-identity/document":         `{"region": "` + ec2Region + `"}`,
		"/latest/meta-data/iam/security-credentials/":        "masters",
		"/latest/meta-data/iam/security-credentials/masters": string(key),
	}[r.URL.Path]
	if r.Header.Get("X-Aws-Ec2-Metadata-Token") != "token" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	fmt.Fprint(w, text)
}

func (e *EC2) api(m *Machine, w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	form, err := url.ParseQuery(string(body))
	if err != nil || r.Header.Get("X-Amz-Security-Token") != "session" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	switch form.Get("Action") {
	case "DescribeVolumes":
		e.describeVolumes(m, w, form)
	case "DescribeInstances":
		e.describeInstances(w)
	case "AttachVolume":
		e.attach(m, w, form)
	default:
		e.fail(w, fmt.Errorf("a call that kops does not grant: %s", form))
	}
}

// matches says whether a volume is among those that are asked for.
func (v *Volume) matches(form url.Values) bool {
	if id := form.Get("VolumeId.1"); id != "" {
		return id == v.ID
	}
	for i := 1; form.Has(fmt.Sprintf("Filter.%d.Name", i)); i++ {
		name, value := form.Get(fmt.Sprintf("Filter.%d.Name", i)), form.Get(fmt.Sprintf("Filter.%d.Value.1", i))
		key, isTag := strings.CutPrefix(name, "tag:")
		_, tagged := v.Tags[value]
		if isTag && v.Tags[key] != value || name == "tag-key" && !tagged || name == "availability-zone" && value != ec2Zone {
			return false
		}
	}
	return true
}

// describeVolumes reports volumes. That of a machine that was replaced is free when the next
// one has asked for it once.
func (e *EC2) describeVolumes(m *Machine, w http.ResponseWriter, form url.Values) {
	var s strings.Builder
	s.WriteString("<DescribeVolumesResponse><volumeSet>")
	e.mu.Lock()
	for _, v := range e.volumes {
		if !v.matches(form) {
			continue
		}
		s.WriteString("<item><volumeId>" + v.ID + "</volumeId><attachmentSet>")
		if v.at != "" {
			s.WriteString("<item><instanceId>" + v.at + "</instanceId><device>/dev/xvdu</device>" +
				"<status>attached</status></item>")
		}
		s.WriteString("</attachmentSet><tagSet>")
		for key, value := range v.Tags {
			s.WriteString("<item><key>" + key + "</key><value>" + value + "</value></item>")
		}
		s.WriteString("</tagSet></item>")
		if v == m.Volume && v.at != e.instanceOf(m) {
			v.at = ""
		}
	}
	e.mu.Unlock()
	s.WriteString("</volumeSet></DescribeVolumesResponse>")
	fmt.Fprint(w, xml.Header, s.String())
}

func (e *EC2) describeInstances(w http.ResponseWriter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fmt.Fprint(w, "<DescribeInstancesResponse><reservationSet>")
	for _, m := range e.machines {
		address := "<privateIpAddress>" + m.Address + "</privateIpAddress>"
		if e.c.Net.six {
			address = "<networkInterfaceSet><item><ipv6AddressesSet><item><ipv6Address>" + m.Address +
				"</ipv6Address></item></ipv6AddressesSet></item></networkInterfaceSet>"
		}
		fmt.Fprintf(w, "<item><instancesSet><item><instanceId>%s</instanceId>%s</item></instancesSet></item>",
			e.instanceOf(m), address)
	}
	fmt.Fprint(w, "</reservationSet></DescribeInstancesResponse>")
}

func (e *EC2) attach(m *Machine, w http.ResponseWriter, form url.Values) {
	e.mu.Lock()
	taken := m.Volume == nil || form.Get("VolumeId") != m.Volume.ID || m.Volume.at != ""
	if !taken {
		m.Volume.at = e.instanceOf(m)
	}
	e.mu.Unlock()
	if taken {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, "<Response><Errors><Error><Code>VolumeInUse</Code></Error></Errors></Response>")
		return
	}
	if err := m.plug(); err != nil {
		e.fail(w, fmt.Errorf("plug a volume: %w", err))
		return
	}
	fmt.Fprint(w, "<AttachVolumeResponse><status>attaching</status></AttachVolumeResponse>")
}
