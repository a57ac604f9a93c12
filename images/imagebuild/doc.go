// Package imagebuild makes the container images of this project, and one for each
// version of etcd, without Docker and without root.
//
// An image is a few files on an empty base: static programs, the roots of public
// certificate authorities, and the names of two users. It holds nothing of the machine
// that it is built on. Times in it are those of the commit, layers are ordered from what
// changes least to what changes most, and Go's build is reproducible, so that the same
// commit gives the same digests wherever it is built.
//
// Each image of a platform has two referrers (OCI 1.1): a bill of materials in
// CycloneDX's format, read from the programs themselves, and a provenance statement in
// the format of SLSA. Neither is signed.
package imagebuild
