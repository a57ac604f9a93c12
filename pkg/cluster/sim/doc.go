// Package sim plays the planner against a world of its own: machines, disks,
// etcd members, a control store, and faults in all of them.
//
// The network has partitions, pairs of nodes that are cut off from each other, in
// one direction or both, and messages of the lease that come late or get lost. With
// [Config.Ports] peer ports are closed, too.
// Daemons there see what [observe.Of] makes of the raw answers of nodes, members
// and store, as real ones do.
//
// The world has its own semantics. It knows nothing of [plan.Predict] and
// shares no code with the rules, so a mistake in the model of etcd or in a
// rule shows as a broken invariant of the world: acknowledged data lost, two
// clusters at once, a quorum taken away by our own step. After some time the
// faults stop, and then the cluster must converge, or hold for a reason that is
// true in the world.
//
// A run is decided by its seed and by nothing else. Each step draws from a
// source of its own, made from the seed and the number of the step, so that
// taking a fault out of a run (see [Shrink]) leaves the rest as it was.
package sim
