// Command dist builds what is installed on machines: archives, Debian and RPM packages, and
// the file SHA256SUMS of them all, for linux on amd64 and arm64.
//
// An archive holds a program set in the layout of /usr/local. The packages hold all
// programs, and place files where the distributions do. Installing and removing them starts
// and stops nothing. The same commit gives the same bytes wherever it is built: times are
// those of the commit, owners are root, and Go's build is reproducible.
package main
