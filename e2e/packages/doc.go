// Package packages tests what "make dist" builds.
package packages
