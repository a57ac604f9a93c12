package backup_test

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

func TestReadInfo(t *testing.T) {
	full := info()
	full.At = at.Truncate(time.Second)
	only := backup.Info{EtcdVersion: etcdversion.Must("3.4.13")}
	for text, want := range map[string]backup.Info{
		`{"etcdVersion":"3.6.16","timestamp":"1795171177","clusterSpec":{"memberCount":3,"etcdVersion":"3.6.16"}}`:                full,
		`{"etcdVersion":"3.6.16",  "timestamp":1795171177,  "clusterSpec":{"memberCount":"3",  "etcdVersion":"v3.6.16"}}`:         full,
		`{"etcd_version":"3.6.16","timestamp":"1795171177","cluster_spec":{"member_count":3,"etcd_version":"3.6.16"},"more":[1]}`: full,
		`{"etcdVersion":"3.4.13"}`:                                     only,
		`{"etcdVersion":"3.4.13","timestamp":null,"clusterSpec":null}`: only,
		`{"etcdVersion":"2.2.1"}`:                                      {EtcdVersion: etcdversion.Must("2.2.1")},
	} {
		if got, err := backup.ReadInfo([]byte(text)); err != nil || got != want {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
	}
	for _, bad := range []string{
		"", "{", "[]", "null", "{}", `{"etcdVersion":3}`, `{"etcdVersion":"latest"}`,
		`{"etcdVersion":"3.4.13","timestamp":"soon"}`,
		`{"etcdVersion":"3.4.13","timestamp":1.5}`, `{"etcdVersion":"3.4.13","timestamp":[]}`,
		`{"etcdVersion":"3.4.13","clusterSpec":{"etcdVersion":"x"}}`, `{"etcdVersion":"3.4.13","clusterSpec":3}`,
	} {
		if got, err := backup.ReadInfo([]byte(bad)); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

func FuzzReadInfo(f *testing.F) {
	f.Add([]byte(`{"etcdVersion":"3.6.16","timestamp":"1795171177","clusterSpec":{"memberCount":3,"etcdVersion":"3.6.16"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if i, err := backup.ReadInfo(b); err == nil && i.EtcdVersion.IsZero() {
			t.Errorf("%q is read without a version", b)
		}
	})
}
