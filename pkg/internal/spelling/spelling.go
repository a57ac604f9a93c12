// Package spelling finds the word that somebody meant.
package spelling

import "strings"

// Nearest returns the known word that is most like word, "" if none is alike:
// for the question "did you mean". Of equally near ones it is the first. A word that
// only one known word begins with is that one.
func Nearest(word string, known []string) string {
	if begun := begin(word, known); len(word) > 2 && len(begun) == 1 {
		return begun[0]
	}
	return Within(max(2, len(word)/3), word, known)
}

// begin returns the known words that begin with word.
func begin(word string, known []string) (list []string) {
	for _, k := range known {
		if strings.HasPrefix(k, word) {
			list = append(list, k)
		}
	}
	return list
}

// Within is Nearest where at most so many letters may be other ones.
func Within(letters int, word string, known []string) string {
	best, least := "", letters+1
	for _, k := range known {
		if d := distance(word, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is how many letters must be added, removed or replaced to make b of
// a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
