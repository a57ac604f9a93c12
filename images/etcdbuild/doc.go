// Package etcdbuild builds etcd releases from Go modules into a cache.
//
// Each release has a folder named for its version, holding a go.mod whose
// `tool` lines name the main packages to build, and the go.sum that pins what
// goes into them. To add a version, add a folder. The folders are modules of
// their own, outside the workspace, because a workspace can hold only one
// version of a module.
//
// A finished build is a directory of the cache, named for the version and for
// a digest of everything that decides its content (see [Builder.Key]), so it
// is made once and never changes:
//
//	CACHE/etcd/3.6.16-1a2b3c4d5e6f/{etcd,etcdctl,etcdutl}
//	CACHE/bin/etcd-v3.6.16 -> ../etcd/3.6.16-1a2b3c4d5e6f
//
// CACHE/bin is what etcd-manager takes as --etcd-dir.
package etcdbuild
