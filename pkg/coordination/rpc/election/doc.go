// Package election gets and keeps the coordinator's lease over the network.
// All decisions are made in package lease; here is what that package must not
// have: a clock, goroutines, deadlines and a disk.
//
// A [Voter] is a node that is asked. It answers only after what it promises is
// on disk. A [Session] is a daemon that asks. It asks all lease voters at the same
// time and goes on as soon as a majority has answered, so lease voters that hang
// do not slow it down as long as they are a minority.
package election
