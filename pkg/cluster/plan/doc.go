// Package plan decides. [Next] takes the spec and one observation of the world and
// answers with the one operation to do now, or with the reasons for doing
// nothing.
//
// Every function here is pure: no clock, no randomness, no environment, no
// input or output, no dependence on map order. The same arguments give the
// same answer, so every rule can be tested as text (testdata), in simulation
// (package sim) and by hand (etcdadm plan).
//
// The rules stand in files named rule_*.go and are asked in the order of the
// list in next.go. What no rule may ever do stands in [Check], which shares no
// code with the rules and is asked again before each effect.
package plan
