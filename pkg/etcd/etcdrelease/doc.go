// Package etcdrelease gets a release of etcd and installs its binaries.
//
// A release comes from a directory, an archive, an OCI image, or the place on
// the web where release archives are. What is installed has been run before
// it is put in place, and has printed the version that was asked for.
//
// Archives from the web are kept in a cache, whose layout is that of the
// retired etcdadm, so that an archive that somebody put there before needs no
// network:
//
//	<cache>/etcd/v3.6.16/etcd-v3.6.16-linux-amd64.tar.gz
//	<cache>/etcd/v3.6.16/etcd-v3.6.16-linux-amd64.tar.gz.sha256
//	<cache>/etcd/v3.6.16/etcd-v3.6.16-linux-amd64.tar.gz.part       while it is fetched
//	<cache>/etcd/v3.6.16/etcd-v3.6.16-linux-amd64.tar.gz.part.from  where the part comes from
package etcdrelease
