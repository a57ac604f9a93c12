package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

var (
	release     = regexp.MustCompile(`^v([0-9]+\.[0-9]+\.[0-9]+)(?:-([0-9A-Za-z.]+))?$`)
	development = regexp.MustCompile(`^devel(?:-[0-9a-f]{12})?(?:-changes)?$`)
)

// packageVersion returns the version of the packages, as both distributions order it: a
// release comes after its candidates, which have a tilde, and all of them come after what
// was built from a commit at t, which has the time of that so that a later one is newer.
func packageVersion(version string, t time.Time) (string, error) {
	if development.MatchString(version) {
		rest := strings.ReplaceAll(strings.TrimPrefix(version, "devel"), "-", ".")
		return "0~" + t.UTC().Format("20060102150405") + rest, nil
	}
	m := release.FindStringSubmatch(version)
	switch {
	case m == nil:
		return "", fmt.Errorf("the version %q is not of a form such as v0.1.0 or v0.1.0-rc.1", version)
	case m[2] != "":
		return m[1] + "~" + m[2], nil
	}
	return m[1], nil
}
