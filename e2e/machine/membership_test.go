package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// changes asks etcd for a change of its members until it is done. Etcd never answers one that
// it drops, as it does while another one is not applied: no try waits for long. What a try
// changes whose answer was lost is what the next one finds.
func changes(t *testing.T, what string, change func(ctx context.Context) error) {
	t.Helper()
	eventually(t, commandTime, what, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), askTime)
		defer cancel()
		return change(ctx)
	})
}

// addLearner adds a learner with a peer URL, and returns its id.
func addLearner(t *testing.T, by *clientv3.Client, peerURL string) (id uint64) {
	t.Helper()
	changes(t, "a learner at "+peerURL, func(ctx context.Context) error {
		list, err := by.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, m := range list.Members {
			if slices.Contains(m.PeerURLs, peerURL) {
				id = m.ID
				return nil
			}
		}
		added, err := by.MemberAddAsLearner(ctx, []string{peerURL})
		if err == nil {
			id = added.Member.ID
		}
		return err
	})
	return id
}

// removeID removes the member of an id.
func removeID(t *testing.T, by *clientv3.Client, id uint64) {
	t.Helper()
	changes(t, fmt.Sprintf("the removal of %x", id), func(ctx context.Context) error {
		_, err := by.MemberRemove(ctx, id)
		if errors.Is(err, rpctypes.ErrMemberNotFound) {
			return nil
		}
		return err
	})
}
