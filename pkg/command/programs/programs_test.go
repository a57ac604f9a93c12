package programs

import "testing"

func TestAProgramIsWhatItIsCalled(t *testing.T) {
	for argv0, want := range map[string]string{
		"/ko-app/etcd-manager":      "etcd-manager",
		"/etcd-manager":             "etcd-manager",
		"/ko-app/etcd-manager-ctl":  "etcd-manager-ctl",
		"etcd-manager-ctl":          "etcd-manager-ctl",
		"/usr/local/bin/etcdadm":    "etcdadm",
		"./etcdadm":                 "etcdadm",
		"/proc/self/exe":            "etcd-manager",
		"/opt/etcd-manager-v1.2.3":  "etcd-manager",
		"etcd-manager-linux-amd64 ": "etcd-manager",
		"":                          "etcd-manager",
	} {
		if got := Called(argv0).Name(); got != want {
			t.Errorf("%q is %s, want %s", argv0, got, want)
		}
	}
}
