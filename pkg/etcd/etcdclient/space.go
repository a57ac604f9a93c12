package etcdclient

import (
	"context"
	"crypto/tls"
	"fmt"
)

// A Space is how large a member's database is, in bytes.
type Space struct {
	// Size is that of the file, InUse what is left of it without free pages.
	Size  int64 `json:"size"`
	InUse int64 `json:"inUse"`
	// Quota is the size at which the cluster stops taking writes, zero where the
	// member does not say: its status has it from 3.6; see [Quota].
	Quota int64 `json:"quota,omitempty"`
}

// Space asks the member at an endpoint for the size of its database. It
// answers without a quorum.
func (c *Client) Space(ctx context.Context, endpoint string) (Space, error) {
	s, err := c.c.Status(ctx, endpoint)
	if err != nil {
		return Space{}, fmt.Errorf("status of %s: %w", endpoint, plain(err))
	}
	return Space{Size: s.DbSize, InUse: s.DbSizeInUse, Quota: s.DbSizeQuota}, nil
}

// quotaMetric is what etcd publishes its quota as, since 3.3.
const quotaMetric = "etcd_server_quota_backend_bytes"

// Quota reads the quota of the member at an endpoint out of its metrics, where
// its status does not have it: before 3.6.
func Quota(ctx context.Context, endpoint string, config *tls.Config) (int64, error) {
	quota, err := metric(ctx, endpoint, config, quotaMetric)
	if err != nil {
		return 0, fmt.Errorf("quota of %s: %w", endpoint, err)
	}
	return int64(quota), nil
}
