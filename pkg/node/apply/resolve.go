package apply

import (
	"context"
	"fmt"
	"net"
	"net/url"
)

// resolve makes sure that this machine finds the hosts of URLs: nobody is to look for a
// member under a name that means nothing here.
func resolve(ctx context.Context, urls []string) error {
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			return err
		}
		if _, err := net.DefaultResolver.LookupHost(ctx, u.Hostname()); err != nil {
			return fmt.Errorf("the other members cannot use %s: %w", text, err)
		}
	}
	return nil
}
