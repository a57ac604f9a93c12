package rpc

import (
	"context"
	"time"
)

// FromStatus is what a call's error is for the caller, nil for none.
func FromStatus(err error) error {
	if err == nil {
		return nil
	}
	return fromStatus(context.Background(), err)
}

// WithHandshake gives those who connect that much time to prove who they are.
func (o ServerOptions) WithHandshake(d time.Duration) ServerOptions {
	o.handshake = d
	return o
}
