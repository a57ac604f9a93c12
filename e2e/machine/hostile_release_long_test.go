//go:build e2e

package machine

import "testing"

// An archive that is cut off again and again, by a server that cannot resume, is fetched
// fifty times before it is given up.
func TestAReleaseThatIsCutOffEachTime(t *testing.T) {
	t.Parallel()
	badRelease(t, release(t), func(s *shop) { s.breakOff(1 << 20) }, []string{"unexpected EOF"})
}
