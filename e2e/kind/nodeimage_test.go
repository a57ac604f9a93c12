//go:build e2e

package kind

import (
	"context"
	"strings"
	"testing"
)

// A node image that lacks something is refused before there are machines, with what it lacks.
func TestNodeImageThatLacksSomething(t *testing.T) {
	const name = "etcdadm-kind-node:lacks"
	dockerfile := strings.NewReader("FROM " + image + "\nRUN rm \"$(command -v kubeadm)\" /kind/version\n")
	if _, err := command(t.Context(), dockerfile, "env", "DOCKER_BUILDKIT=0", "docker", "build", "--network=none",
		"--tag="+name, "-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = docker(context.WithoutCancel(t.Context()), "rmi", name) })
	if err := usable(t.Context(), image); err != nil {
		t.Error(err)
	}
	want := name + " is no node image of kind: it lacks kubeadm, /kind/version"
	if err := usable(t.Context(), name); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
