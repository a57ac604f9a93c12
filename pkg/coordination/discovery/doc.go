// Package discovery finds the other daemons: from seeds that are configured,
// from a directory of seed files, and from the records that the daemons keep
// in the control store. It gives the gossip whom to join, and sees to it that
// others find this node.
package discovery
