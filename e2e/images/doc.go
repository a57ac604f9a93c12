// Package images tests the container images as they are shipped: built by the command
// that builds them, and used by those who use them.
package images
