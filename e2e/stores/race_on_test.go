//go:build race

package stores

const raceEnabled = true
