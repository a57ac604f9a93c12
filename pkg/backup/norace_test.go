//go:build !race

package backup_test

const raceEnabled = false
