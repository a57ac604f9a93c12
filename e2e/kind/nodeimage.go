//go:build e2e

package kind

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// needed are the programs of a node image that the scenarios call.
const needed = "bash cat containerd cp ctr flock grep journalctl kubeadm kubectl kubelet mkdir mv rm sh systemctl tar touch"

// usable returns an error that says what a node image lacks. Docker takes the image from its registry
// if it is not here.
func usable(ctx context.Context, image string) error {
	const script = `for p in ` + needed + `; do command -v $p >/dev/null || echo $p; done
		test -s /kind/version || echo /kind/version`
	lacks, err := docker(ctx, "run", "--rm", "--network=none", "--entrypoint=/bin/sh", image, "-c", script)
	switch {
	case err != nil && strings.Contains(err.Error(), "/bin/sh"):
		return fmt.Errorf("%s is no node image of kind: it has no /bin/sh: %w", image, err)
	case err != nil:
		return fmt.Errorf("the node image %s cannot be used: %w", image, err)
	case lacks != "":
		return errors.New(image + " is no node image of kind: it lacks " + strings.Join(strings.Fields(lacks), ", "))
	}
	return nil
}
