package etcdrelease

import _ "embed" // pins.txt

// pins are the digests of official releases that this program knows. What a source says of
// its own archives proves only that nothing was lost on the way.
//
//go:embed pins.txt
var pins string

// pinsName is who says a digest of pins, in errors.
const pinsName = "the digests in this program (pins.txt)"

// pinned returns the digest that the archive with this file name must have, "" where it is
// not known. An operator who names a digest is believed instead: the binaries may be of
// another maker.
func (o Options) pinned(name string) string { return digestIn(o.pins, name, false) }
