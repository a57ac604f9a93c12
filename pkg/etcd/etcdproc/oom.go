package etcdproc

import (
	"os"
	"strconv"
	"strings"
)

// oomAfter is by how much the process is more likely to be killed for memory than
// this one, in thousandths of the memory (proc(5), oom_score_adj).
//
// When the supervisor is killed, etcd goes with it and waits for whoever
// restarts the supervisor; when etcd is, it is back within a fraction of a
// second. So etcd has to be the first. The step is small, so that a supervisor
// that has grown far beyond its etcd is still killed for it.
const oomAfter = 20

// worst is the highest value that the kernel knows.
const worst = 1000

// yieldMemory makes the kernel kill the process pid before this one. To raise
// the value of a child needs no privilege. Where it fails nevertheless, nothing
// is lost but the preference.
func yieldMemory(pid int) error {
	own, err := oomScore("self")
	if err != nil {
		return err
	}
	return os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(strconv.Itoa(min(worst, own+oomAfter))), 0)
}

func oomScore(process string) (int, error) {
	b, err := os.ReadFile("/proc/" + process + "/oom_score_adj")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}
