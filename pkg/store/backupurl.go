package store

import "strings"

// SplitBackupURL splits STORE-URL/NAME into the URL of a store, with its options, and the
// name of a backup in it. ok is false where it has no store or names no backup.
func SplitBackupURL(text string) (location, name string, ok bool) {
	place, options, _ := strings.Cut(text, "?")
	place = strings.TrimRight(place, "/")
	at := strings.LastIndex(place, "/")
	if !strings.Contains(place, "://") || strings.HasSuffix(place[:at], ":/") {
		return "", "", false
	}
	location, name = place[:at], place[at+1:]
	if options != "" {
		location += "?" + options
	}
	return location, name, name != ""
}
