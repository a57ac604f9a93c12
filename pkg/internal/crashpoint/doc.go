// Package crashpoint marks the places between two effects, so that a test can
// kill the process exactly there and check whether a restart makes things
// right.
//
// In an ordinary build [Hit] is an empty function and nothing reads the
// environment. Built with -tags crashpoints, a process started with
//
//	ETCDADM_CRASH_AT=NAME      kills itself at the first Hit(NAME)
//	ETCDADM_CRASH_AT=NAME:3    kills itself at the third Hit(NAME)
//	ETCDADM_CRASH_AT=dir:DIR   kills itself at a Hit(NAME) with a file DIR/NAME, which it
//	                           removes before: of several processes, the first one
//
// with SIGKILL: no deferred function runs and no buffer is flushed, as in a
// power cut except that the kernel's page cache survives. A number that cannot
// be read stops the program at its first Hit, so that a test with a typing
// error does not pass as one in which nothing crashed.
//
// Names are of the form package.place, for example "apply.before-remove", and
// have no colon.
package crashpoint

// Variable is the environment variable that says where to crash.
const Variable = "ETCDADM_CRASH_AT"

// Dir begins a value of [Variable] that is a directory of points, which may come and go
// while the process runs.
const Dir = "dir:"
