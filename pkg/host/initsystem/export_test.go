package initsystem

import "time"

// SetSettle changes how long nothing may answer for a static pod to be taken as gone.
func SetSettle(s System, d time.Duration) { s.(*kubelet).settle = d }
