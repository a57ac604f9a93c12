module etcdbuild

go 1.26

godebug httpmuxgo121=1

require github.com/coreos/etcd v2.2.5+incompatible

tool (
	github.com/coreos/etcd
	github.com/coreos/etcd/etcdctl
)
