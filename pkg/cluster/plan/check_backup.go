package plan

// backup makes sure that a backup that is not damaged is as fresh as the policy asks for.
func (c checker) backup(step string) error {
	for _, b := range c.obs.Store.Own() {
		ahead := b.At.Sub(c.obs.At) // of a clock that is wrong
		if !b.Damaged && ahead <= c.policy.MaxClockSkew && -ahead <= c.policy.BackupFresh {
			return nil
		}
	}
	if c.policy.Unbacked {
		return nil
	}
	return unsafe("backup", "%s without a backup of the last %s", step, c.policy.BackupFresh)
}

// bootstrapAsked reports whether a node that answers has a new cluster asked for on its
// disk.
func (c checker) bootstrapAsked() bool {
	for _, n := range c.obs.Nodes {
		if n.NewCluster && n.Reachable {
			return true
		}
	}
	return false
}
