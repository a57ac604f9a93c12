// Package hygiene holds the rules of the source tree that no compiler checks:
// who may import whom, what has a comment, how long things may get, and what
// must not be written down. Its tests apply them to the tree.
//
// The go command does not know that these tests read the whole tree, and may
// answer from its cache; make test does not let it, and go test -count=1 does
// not either.
package hygiene
