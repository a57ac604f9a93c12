//go:build !crashpoints

package crashpoint

import "testing"

func TestHitDoesNothingInAnOrdinaryBuild(t *testing.T) {
	t.Setenv(Variable, "here")
	Hit("here")
	if Enabled {
		t.Error("an ordinary build says that it has crash points")
	}
}
