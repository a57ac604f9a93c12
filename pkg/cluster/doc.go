// Package cluster holds the values that the project talks about: the spec
// ([Spec]), one observation of the world ([Observation]) and the names and numbers in
// both.
//
// Everything here is plain data. Nothing in this package reads a clock, a
// file or the network, and nothing has a method with an effect, so every value
// can be compared, written as JSON, mailed in a bug report and read back as a
// test case.
package cluster
