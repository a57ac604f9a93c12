module github.com/etcdadm/etcdadm/hack

go 1.26.0
