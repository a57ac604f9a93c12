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
		{"spaces", []string{"ETCD_LISTEN_CLIENT_URLS= https://10.0.0.1:2379 , https://127.0.0.1:4001"}, []uint16{2379, 4001}},
		{"URLs without gRPC", []string{
			"ETCD_LISTEN_CLIENT_HTTP_URLS=https://10.0.0.1:8082,https://10.0.0.2:2379",
			"ETCD_LISTEN_CLIENT_URLS=https://10.0.0.1:2379",
		}, []uint16{2379, 8082}},
		{"a port of peers", []string{
			"ETCD_LISTEN_CLIENT_URLS=https://10.0.0.1:2379,https://10.0.0.2:2380", "ETCD_LISTEN_PEER_URLS=https://10.0.0.1:2380",
		}, []uint16{2379}},
		{"not a port", []string{"ETCD_LISTEN_CLIENT_URLS=https://10.0.0.1,https://a:70000,unix:///run/etcd,:::,https://b:1"},
			[]uint16{1}},
	} {
		if got := ClientPorts(tt.env); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestPeerPorts(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  []string
		want []uint16
	}{
		{"nothing", nil, nil},
		{"two URLs of one port", []string{"ETCD_LISTEN_PEER_URLS=https://10.0.0.1:2380,https://[::1]:2380"}, []uint16{2380}},
		{"a port of clients", []string{
			"ETCD_LISTEN_CLIENT_URLS=https://10.0.0.1:2379,https://10.0.0.2:2380",
			"ETCD_LISTEN_PEER_URLS=https://10.0.0.1:2380,https://10.0.0.1:7001",
		}, []uint16{7001}},
		{"a port of clients without gRPC", []string{
			"ETCD_LISTEN_CLIENT_HTTP_URLS=https://10.0.0.2:2380", "ETCD_LISTEN_PEER_URLS=https://10.0.0.1:2380",
		}, nil},
	} {
		if got := PeerPorts(tt.env); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
