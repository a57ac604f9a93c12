//go:build e2e

package migrate

import "testing"

func TestEveryEtcd2(t *testing.T) {
	t.Run("2.2.5", func(t *testing.T) { testV2(t, "2.2.5") })
	t.Run("torn log of 2.2.5", func(t *testing.T) { testTornLog(t, "2.2.5") })
	t.Run("one of three of 2.3.8", func(t *testing.T) { testOneOfThree(t, "2.3.8") })
	t.Run("one of three of 3.3.27", func(t *testing.T) { testOneOfThree(t, "3.3.27") })
}

func TestEveryEarlyEtcd3(t *testing.T) {
	for _, version := range []string{"3.0.17", "3.1.20", "3.2.32"} {
		t.Run(version, func(t *testing.T) { testBoth(t, version) })
	}
}
