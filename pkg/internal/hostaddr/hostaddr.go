// Package hostaddr finds the address by which a machine is known.
package hostaddr

import "net"

// Default returns the machine's address on the way to everywhere else:
// the one that the kernel would send from. Nothing is sent.
func Default(six bool) (string, error) {
	families := [][2]string{{"udp4", "192.0.2.1:9"}, {"udp6", "[2001:db8::1]:9"}}
	if six {
		families = families[1:]
	}
	for _, f := range families {
		c, err := net.Dial(f[0], f[1])
		if err != nil {
			continue
		}
		host, _, err := net.SplitHostPort(c.LocalAddr().String())
		c.Close()
		if err == nil {
			return host, nil
		}
	}
	return "", &Error{}
}

// An Error says that the machine has no address to be known by.
type Error struct{}

func (*Error) Error() string {
	return "the machine has no default route, so its address is unknown"
}

// Hint says what to do about it.
func (*Error) Hint() string { return "give the address with --bind-address" }
