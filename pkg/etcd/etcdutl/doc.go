// Package etcdutl runs etcd's own tool for snapshot files: what it makes of
// them is right for the version of etcd that it came with, and only for that.
package etcdutl
