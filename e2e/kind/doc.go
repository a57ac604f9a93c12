// Package kind has scenarios of etcd under a real kubelet and a real API server: on machines that
// kind makes, containers with systemd and containerd.
//
// The machines come from a node image of Kubernetes. Its name is in KIND_NODE_IMAGE; where it is
// not, node/build.sh builds one from Go modules and Debian packages. It needs no registry of images.
// kind leaves the machines before Kubernetes is set up: a scenario puts an etcd on them first, runs
// kubeadm then, and writes through the API server from then on.
//
// Without Docker nothing is run, and a line says so. setup.sh brings a daemon where there is none.
// The package is a module of its own, outside the workspace, because of kind's dependencies.
package kind
