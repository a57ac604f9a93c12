// Package cli is what the command lines of all programs have in common: exit
// codes, the form of errors and output, the flags of old scripts, and the
// version.
//
// It knows commands, but none in particular; those are in package command.
package cli
