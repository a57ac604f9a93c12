module github.com/etcdadm/etcdadm/e2e

go 1.26.0

require (
	github.com/etcdadm/etcdadm/pkg v0.0.0
	go.etcd.io/etcd/client/v3 v3.7.3
	go.uber.org/zap v1.28.0
	golang.org/x/sys v0.49.0
	google.golang.org/grpc v1.85.0
)

replace github.com/etcdadm/etcdadm/pkg => ../pkg
