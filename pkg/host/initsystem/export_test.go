package initsystem

import "time"

// SetGoneGrace changes how long nothing may answer for a static pod to be taken as gone.
func SetGoneGrace(s System, d time.Duration) { s.(*kubelet).goneGrace = d }
