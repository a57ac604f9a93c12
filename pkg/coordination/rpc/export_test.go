package rpc

import "context"

// FromStatus is what a call's error is for the caller, nil for none.
func FromStatus(err error) error {
	if err == nil {
		return nil
	}
	return fromStatus(context.Background(), err)
}
