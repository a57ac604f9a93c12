package hygiene

import (
	"bytes"
	"regexp"
	"slices"
)

// find returns the offsets, as [regexp.Regexp.FindAllIndex] does, of what pattern
// matches within the lines of content that have one of the literals. To look for a
// literal is a hundred times faster than to look for a pattern, so every match of
// the pattern must have one of them.
func find(content []byte, pattern *regexp.Regexp, literals []string) [][2]int {
	var starts []int
	for _, literal := range literals {
		for at := 0; ; at++ {
			i := bytes.Index(content[at:], []byte(literal))
			if i < 0 {
				break
			}
			starts = append(starts, bytes.LastIndexByte(content[:at+i], '\n')+1)
			at += i
		}
	}
	slices.Sort(starts)
	var found [][2]int
	for _, start := range slices.Compact(starts) {
		line := content[start:]
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line = line[:end]
		}
		for _, m := range pattern.FindAllIndex(line, -1) {
			found = append(found, [2]int{start + m[0], start + m[1]})
		}
	}
	return found
}
