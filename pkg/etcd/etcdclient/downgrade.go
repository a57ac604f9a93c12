package etcdclient

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A Downgrader lets a cluster be downgraded by a minor version.
type Downgrader interface {
	EnableDowngrade(ctx context.Context, to etcdversion.Version) error
	CancelDowngrade(ctx context.Context) error
}

// EnableDowngrade has etcd prepare its data for the minor version before the cluster
// version, and keep the cluster version there until all members run it, or until it
// is cancelled. etcd itself checks that this is possible. The leader lowers the
// cluster version within seconds, and each member the version of its data. A
// downgrade that is enabled to that version already is success.
func (c *Client) EnableDowngrade(ctx context.Context, to etcdversion.Version) error {
	_, err := c.c.Downgrade(ctx, clientv3.DowngradeEnable, to.String())
	if err == nil {
		return nil
	}
	if errors.Is(err, rpctypes.ErrDowngradeInProcess) || errors.Is(err, rpctypes.ErrInvalidDowngradeTargetVersion) {
		// etcd calls a version invalid, too, that the cluster has come to.
		if s, serr := c.c.Status(ctx, c.endpoints[0]); serr == nil && downgradeIn(s) == to {
			return nil
		}
	}
	return fmt.Errorf("enable the downgrade to etcd %d.%d: %w", to.Major, to.Minor, plain(err))
}

// CancelDowngrade ends what [Client.EnableDowngrade] has begun. Where no downgrade is
// enabled it is success.
func (c *Client) CancelDowngrade(ctx context.Context) error {
	_, err := c.c.Downgrade(ctx, clientv3.DowngradeCancel, "")
	if err != nil && !errors.Is(err, rpctypes.ErrNoInflightDowngrade) {
		return fmt.Errorf("cancel the downgrade: %w", plain(err))
	}
	return nil
}

// downgradeIn returns the version of the downgrade that a status reports, zero for
// none.
func downgradeIn(s *clientv3.StatusResponse) (to etcdversion.Version) {
	if s.DowngradeInfo != nil && s.DowngradeInfo.Enabled {
		to, _ = etcdversion.Parse(s.DowngradeInfo.TargetVersion)
	}
	return to
}
