module github.com/etcdadm/etcdadm/images

go 1.26.0
