//go:build !race

package stores

// raceEnabled says that memory is what the race detector needs, not the program.
const raceEnabled = false
