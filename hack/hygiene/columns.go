package hygiene

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxProseColumns is the width of prose in pages. Tables, code and headings may
// be wider.
const MaxProseColumns = 104

// wide are the pages whose prose is not wrapped: those that are generated, and
// those that were written before the rule.
var wide = regexp.MustCompile(`^docs/(backup-format|backups|coordinator|etcd-backup|etcdadm-go|etcdadm|exit-codes|holds|` +
	`migrating-from-etcdadm|operations|performance|phases|restore|security|stores|versions)\.md$`)

// fence begins and ends code in a page.
var fence = regexp.MustCompile("^ *(```|~~~)")

// CheckColumns returns the lines of prose below root that are too long.
func CheckColumns(root string) ([]string, error) {
	var wrong []string
	err := Text(root, func(name string, content []byte) error {
		if !strings.HasSuffix(name, ".md") || wide.MatchString(name) || strings.Contains(name, "/testdata/") {
			return nil
		}
		code := false
		for i, line := range strings.Split(string(content), "\n") {
			switch text := strings.TrimSpace(line); {
			case fence.MatchString(line):
				code = !code
			case code, strings.HasPrefix(text, "|"), strings.HasPrefix(text, "#"), !strings.Contains(text, " "):
			case utf8.RuneCountInString(line) > MaxProseColumns:
				wrong = append(wrong, fmt.Sprintf("%s:%d: %d columns of prose, at most %d",
					name, i+1, utf8.RuneCountInString(line), MaxProseColumns))
			}
		}
		return nil
	})
	return wrong, err
}
