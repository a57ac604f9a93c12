//go:build !crashpoints

package crashpoint

// Enabled says that the process was built with crash points.
const Enabled = false

// Hit does nothing in this build.
func Hit(string) {}
