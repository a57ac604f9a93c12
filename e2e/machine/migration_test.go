package machine

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// promised are the lines of docs/migrating-from-etcdadm.md that say that something is the
// same, or works as it is: by the first cell, or the first words, with the tests that
// do it.
var promised = map[string][]string{
	"`etcdadm init`":               {"cloudInit", "playbook", "madeBefore"},
	"`etcdadm join <endpoint>`":    {"cloudInit", "joinOfScripts", "TestJoinsWithASlowMirror"},
	"`etcdadm reset`":              {"playbook", "recovery", "TestResetsAtOnce", "TestAllResetAtOnce"},
	"`etcdadm info`":               {"info", "playbook"},
	"`etcdadm download`":           {"gzURL", "cachedArchive"},
	"`etcdadm version`":            {"version"},
	"`etcdadm completion`, `help`": {"oldFlags", "exitCodes"},
	"`etcdadm init phase install`, `certificates`, `snapshot`, `configure`, `start`, `etcdctl`, `health`, " +
		"`post-init-instructions`": {"bottlerocket", "TestPhasesOneByOne"},
	"`etcdadm join phase stop`, `certificates`, `membership`, `install`, `configure`, `start`, `etcdctl`, `health`": {
		"bottlerocket", "TestPhasesOneByOne", "TestBottlerocketWhileTheFirstMemberIsLate"},
	"`-l`, `--log-level`":                   {"joinHint", "oldFlags"},
	"`--name`":                              {"playbook", "madeBefore"},
	"`--certs-dir`":                         {"changedManifest"},
	"`--bind-address`":                      {"joinOfScripts"},
	"`--server-cert-extra-sans`":            {"kubeadmCertificates", "joinOfScripts"},
	"`--install-dir`":                       {"madeBefore", "TestCloudInitMakesACluster"},
	"`--snapshot`, `--skip-hash-check`":     {"recovery", "restoredSnapshotStarts"},
	"`--download-connect-timeout`":          {"connectTimeoutIsKept"},
	"`--disk-priorities`":                   {"joinOfScripts", "TestUnprivileged"},
	"`--image-repository`":                  {"bottlerocket"},
	"`--data-dir`":                          {"bottlerocket", "TestEverythingTwice"},
	"`--kubelet-pod-manifest-path`":         {"bottlerocket"},
	"`--retry` (join)":                      {"TestFirstMemberIsLate", "joinAsksAllEndpoints"},
	"`--skip-remove-member` (reset)":        {"recovery"},
	"`--short`, `--output` (version)":       {"version"},
	"`--cipher-suites` (EKS Anywhere)":      {"cloudInit", "olderTLS"},
	"`--cipher-suites`":                     {"cloudInit", "olderTLS"},
	"several endpoints for `join`":          {"cloudInit"},
	"the member list is asked for again":    {"joinAsksAllEndpoints", "TestFirstMemberIsLate"},
	"EKS Distro's archives":                 {"eksDistro", "gzURL", "withoutEtcdutl", "snapshotWithoutEtcdutl"},
	"`etcdadm init` with `--init-system":    {"cloudInit", "TestCloudInitWhileTheFirstMemberIsLate"},
	"One process for each phase":            {"bottlerocket", "TestBottlerocketWhileTheFirstMemberIsLate"},
	"`etcdadm join phase certificates http": {"renewal", "TestRenewalUnderARunningEtcd"},
	"`ETCD_NAME=` and":                      {"scripts", "health", "restoreByThePage", "cloudInit"},
	"An archive that the image has in":      {"cachedArchive", "withoutEtcdutl"},
	"Nothing has to be converted":           {"takenOver"},
	"Upgrade, if you want to":               {"TestRollingUpgrade"},
	"`init --snapshot` after `reset":        {"recovery"},
}

// Each line of the page that promises that something is the same has tests, and each
// of these lines is on the page.
func TestThePageOfTheRetiredEtcdadm(t *testing.T) {
	t.Parallel()
	open := maps.Clone(promised)
	for _, line := range promises(t) {
		found := false
		for begins := range promised {
			// The cell of a table is compared as a whole, other lines by their first words.
			if line == begins || !strings.HasPrefix(line, "`--") && strings.HasPrefix(line, begins) {
				found = true
				delete(open, begins)
			}
		}
		if !found {
			t.Errorf("no test for: %s", line)
		}
	}
	for begins := range open {
		t.Errorf("the page does not say: %s", begins)
	}
	source := sources(t)
	for begins, names := range promised {
		for _, name := range names {
			if !strings.Contains(source, "\nfunc "+name+"(t *testing.T) {\n") {
				t.Errorf("%s: there is no test %s", begins, name)
			}
		}
	}
}

// promises returns the first cells of the rows that say "same", the items about the
// providers, and the beginnings of the paragraphs about machines that are there.
func promises(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "migrating-from-etcdadm.md"))
	if err != nil {
		t.Fatal(err)
	}
	same, item := regexp.MustCompile(`\bsame\b`), regexp.MustCompile(`^(\* |[0-9]\. )`)
	var lines []string
	section, after := "", ""
	for line := range strings.Lines(string(page)) {
		line = strings.TrimRight(line, "\n")
		cells := strings.Split(line, " | ")
		switch {
		case strings.HasPrefix(line, "#"):
			section = line
		case strings.HasPrefix(line, "| ") && same.MatchString(strings.Join(cells[1:], " | ")) &&
			!strings.Contains(section, "done in another way") && !strings.Contains(section, "refused"):
			lines = append(lines, strings.TrimPrefix(cells[0], "| "))
		case section == "## Cluster API and EKS Anywhere" && strings.HasPrefix(line, "* "):
			lines = append(lines, strings.TrimPrefix(line, "* "))
		case section == "## Machines that it set up" && (strings.HasPrefix(line, "Nothing") ||
			strings.HasPrefix(line, "3. ") || after == "" && strings.HasPrefix(line, "`init --snapshot`")):
			lines = append(lines, item.ReplaceAllString(line, ""))
		}
		after = line
	}
	return lines
}

// sources returns the tests of these machines, and of those with systemd.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range []string{".", "../systemd"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range slices.Sorted(slices.Values(files)) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(b)
		}
	}
	return all.String()
}
