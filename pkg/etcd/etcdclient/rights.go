package etcdclient

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// root is the user that has to exist before authentication is turned on, and the role
// that may do everything.
const root = "root"

// Rights are what etcd's authentication lets a client do.
type Rights struct {
	// On says that authentication is on.
	On bool
	// Ahead says that it is off and can be turned on: the user root is there.
	Ahead bool
	// Root says that the client may do everything: its user has the role root. It is set
	// where authentication is on, or ahead.
	Root bool
}

// Rights asks what the client may do, or will be allowed to do once authentication is on,
// as the user of that name: the common name of its certificate, empty without one. It
// takes up to three entries of raft's log, which change nothing.
func (c *Client) Rights(ctx context.Context, user string) (Rights, error) {
	status, err := c.c.AuthStatus(ctx)
	switch {
	case err != nil && Denied(err):
		return Rights{On: true}, nil
	case err != nil:
		return Rights{}, fmt.Errorf("state of authentication: %w", err)
	}
	// Only root may ask for this once authentication is on. Its state etcd 3.7 sends to everybody.
	users, err := c.c.UserList(ctx)
	switch {
	case status.Enabled && err != nil && Denied(err):
		return Rights{On: true}, nil
	case status.Enabled && err == nil:
		return Rights{On: true, Root: true}, nil
	}
	if err != nil || !slices.Contains(users.Users, root) {
		return Rights{}, err
	}
	r := Rights{Ahead: true}
	if user == "" {
		return r, nil
	}
	u, err := c.c.UserGet(ctx, user)
	if errors.Is(err, rpctypes.ErrUserNotFound) {
		return r, nil
	} else if err != nil {
		return Rights{}, fmt.Errorf("roles of user %s: %w", user, err)
	}
	r.Root = slices.Contains(u.Roles, root)
	return r, nil
}
