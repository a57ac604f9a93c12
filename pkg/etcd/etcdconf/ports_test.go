package etcdconf

import (
	"slices"
	"testing"
)

func TestClientPorts(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  []string
		want []uint16
	}{
		{"nothing", nil, nil},
		{"other variables", []string{"ETCD_LISTEN_PEER_URLS=https://10.0.0.1:2380", "PATH=/bin"}, nil},
		{"two URLs", []string{"ETCD_LISTEN_CLIENT_URLS=https://10.0.0.1:2379,https://[::1]:4001"}, []uint16{2379, 4001}},
		{"the last counts", []string{
			"ETCD_LISTEN_CLIENT_URLS=https://10.0.0.1:2379", "ETCD_LISTEN_CLIENT_URLS=https://10.0.0.1:8001",
		}, []uint16{8001}},
		{"not a port", []string{"ETCD_LISTEN_CLIENT_URLS=https://10.0.0.1,https://a:70000,unix:///run/etcd,:::,https://b:1"},
			[]uint16{1}},
	} {
		if got := ClientPorts(tt.env); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
