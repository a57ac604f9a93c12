package backup

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// An Info is what a backup's marker says.
type Info struct {
	// EtcdVersion is the version of the member that was read. It is the one
	// field that every marker has.
	EtcdVersion etcdversion.Version `json:"etcdVersion"`
	// At is when the backup was begun, to the second; zero where the marker does
	// not say.
	At time.Time `json:"at,omitzero"`
	// MemberCount and SpecVersion are what the cluster was meant to be; zero
	// where the marker does not say.
	MemberCount int                 `json:"memberCount,omitempty"`
	SpecVersion etcdversion.Version `json:"specVersion,omitzero"`
}

// wireInfo is the JSON of a marker as this package writes it: protobuf's for
// the message BackupInfo, in which a 64-bit number is a string. Nothing may be
// added: the existing etcd-manager refuses unknown fields.
type wireInfo struct {
	EtcdVersion etcdversion.Version `json:"etcdVersion"`
	Timestamp   string              `json:"timestamp,omitempty"`
	ClusterSpec *wireSpec           `json:"clusterSpec,omitempty"`
}

type wireSpec struct {
	MemberCount int                 `json:"memberCount,omitempty"`
	EtcdVersion etcdversion.Version `json:"etcdVersion,omitzero"`
}

// format returns the marker of i.
func (i Info) format() ([]byte, error) {
	w := wireInfo{EtcdVersion: i.EtcdVersion}
	if !i.At.IsZero() {
		w.Timestamp = strconv.FormatInt(i.At.Unix(), 10)
	}
	if i.MemberCount != 0 || !i.SpecVersion.IsZero() {
		w.ClusterSpec = &wireSpec{i.MemberCount, i.SpecVersion}
	}
	return json.Marshal(w)
}

// looseInfo is the JSON of a marker as others may have written it: with names
// in either form, numbers quoted or not, and fields that we do not know.
type looseInfo struct {
	EtcdVersion  string     `json:"etcdVersion"`
	EtcdVersion2 string     `json:"etcd_version"`
	Timestamp    integer    `json:"timestamp"`
	ClusterSpec  *looseSpec `json:"clusterSpec"`
	ClusterSpec2 *looseSpec `json:"cluster_spec"`
}

type looseSpec struct {
	MemberCount  integer `json:"memberCount"`
	MemberCount2 integer `json:"member_count"`
	EtcdVersion  string  `json:"etcdVersion"`
	EtcdVersion2 string  `json:"etcd_version"`
}

type integer int64

func (n *integer) UnmarshalJSON(b []byte) error {
	text := string(b)
	if text == "null" {
		return nil
	}
	if text[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%s is not a whole number", b)
	}
	*n = integer(v)
	return nil
}

// ReadInfo reads a marker, of this package or of the existing etcd-manager of
// any age. The error is ErrDamaged and says what is wrong with it.
func ReadInfo(b []byte) (Info, error) {
	var loose looseInfo
	if err := json.Unmarshal(b, &loose); err != nil {
		return Info{}, damagedf("its marker: %v", err)
	}
	info := Info{}
	text := either(loose.EtcdVersion, loose.EtcdVersion2)
	if text == "" {
		return Info{}, damagedf("its marker has no etcdVersion")
	}
	var err error
	if info.EtcdVersion, err = etcdversion.Parse(text); err != nil {
		return Info{}, damagedf("its marker: %v", err)
	}
	if info.EtcdVersion.IsZero() {
		return Info{}, damagedf("its marker: there is no etcd %q", text)
	}
	if loose.Timestamp != 0 {
		info.At = time.Unix(int64(loose.Timestamp), 0).UTC()
	}
	spec := either(loose.ClusterSpec, loose.ClusterSpec2)
	if spec == nil {
		return info, nil
	}
	info.MemberCount = int(either(spec.MemberCount, spec.MemberCount2))
	if text := either(spec.EtcdVersion, spec.EtcdVersion2); text != "" {
		if info.SpecVersion, err = etcdversion.Parse(text); err != nil {
			return Info{}, damagedf("its marker: cluster spec: %v", err)
		}
	}
	return info, nil
}

// either returns a, or b if a is the zero value.
func either[T comparable](a, b T) T {
	var zero T
	if a == zero {
		return b
	}
	return a
}
