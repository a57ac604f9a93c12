// Package hostfs does the few things to the machine's file system that must
// not be left half done: replacing a file, renaming a directory, holding a
// data directory for one process, and keeping a block of lines in a hosts file.
//
// A function here that returns nil has put its effect on the disk, not only in
// the page cache: it survives a power cut.
package hostfs
