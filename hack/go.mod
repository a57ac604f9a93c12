module github.com/etcdadm/etcdadm/hack

go 1.26.0

require github.com/etcdadm/etcdadm/pkg v0.0.0

replace github.com/etcdadm/etcdadm/pkg => ../pkg
