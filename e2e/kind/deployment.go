//go:build e2e

package kind

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// deployments is where the deployment of a scenario is.
const deployments = "/apis/apps/v1/namespaces/default/deployments"

// A deployment has controllers and kubelets act on what etcd holds: pods that need neither a network
// of pods nor a node that is ready.
type deployment struct {
	api      *API
	replicas int
}

// deploy makes a deployment of an image that the machines have, and waits until it serves.
func (a *API) deploy(t *testing.T, image string, replicas int) *deployment {
	t.Helper()
	d := &deployment{a, replicas}
	labels := map[string]any{"app": "scenario"}
	err := a.do(t.Context(), "POST", deployments, map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "scenario"},
		"spec": map[string]any{
			"replicas": replicas, "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
				"hostNetwork": true, "tolerations": []any{map[string]any{"operator": "Exists"}},
				"terminationGracePeriodSeconds": 1,
				"containers":                    []any{map[string]any{"name": "pause", "image": image, "imagePullPolicy": "Never"}},
			}},
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.serves(t)
	return d
}

// serves waits until as many pods as are wanted are ready, of the newest generation.
func (d *deployment) serves(t *testing.T) {
	t.Helper()
	await(t, fmt.Sprintf("a deployment with %d pods", d.replicas), 5*time.Minute, func(ctx context.Context) error {
		var got struct {
			Metadata struct{ Generation int }
			Status   struct{ ObservedGeneration, Replicas, ReadyReplicas int }
		}
		if err := d.api.do(ctx, "GET", deployments+"/scenario", nil, &got); err != nil {
			return err
		}
		s := got.Status
		if s.ObservedGeneration != got.Metadata.Generation || s.Replicas != d.replicas || s.ReadyReplicas != d.replicas {
			return fmt.Errorf("generation %d: %+v", got.Metadata.Generation, s)
		}
		return nil
	})
}

// scale changes how many pods there are, and waits for them: the controllers act on what is written.
func (d *deployment) scale(t *testing.T, replicas int) {
	t.Helper()
	d.replicas = replicas
	await(t, "another number of pods", time.Minute, func(ctx context.Context) error {
		var scale map[string]any
		if err := d.api.do(ctx, "GET", deployments+"/scenario/scale", nil, &scale); err != nil {
			return err
		}
		scale["spec"] = map[string]any{"replicas": replicas}
		return d.api.do(ctx, "PUT", deployments+"/scenario/scale", scale, nil)
	})
	d.serves(t)
}
