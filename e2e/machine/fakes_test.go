package machine

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakeSystemctl does what systemctl does for the one unit of etcd, as far as
// etcdadm asks: it runs what is in the unit's file, with what is in its
// environment file, and does not start it again when it ends. While there is a
// file "crashing", the unit waits to be started again. Timers are enabled, and nothing else.
const fakeSystemctl = `#!/bin/sh
here=@DIR@ unit=@UNIT@
[ "$1" = --no-ask-password ] && shift
[ "$1" = show ] || echo "$*" >>$here/calls
case $* in
*.timer)
	case $1 in
	enable) touch $here/timer ;;
	disable) rm -f $here/timer ;;
	show)
		state=disabled active=inactive
		[ -f $here/timer ] && state=enabled active=active
		printf '%s\n' LoadState=loaded ActiveState=$active UnitFileState=$state ;;
	esac
	exit ;;
esac
lives() { pid=$(cat $here/pid 2>/dev/null) && kill -0 $pid 2>/dev/null && ! grep -q '^State:.Z' /proc/$pid/status; }
case $1 in
start)
	lives && exit 0
	etcd=$(sed -n 's/^ExecStart=//p' $unit) env=$(sed -n 's/^EnvironmentFile=//p' $unit)
	for path in $(sed -n 's/^AssertPathExists=//p' $unit); do [ -e $path ] || exit 1; done
	env -i HOST_OF_TEST=@ROOT@/ $(sed -n 's/^Environment=//p' $unit) $(grep -v '^#' $env) setsid $etcd >>$here/log 2>&1 </dev/null &
	echo $! >$here/pid ;;
stop)
	rm -f $here/crashing
	lives && kill $pid
	while lives; do sleep 0.02; done ;;
enable) touch $here/enabled ;;
disable) rm -f $here/enabled ;;
show)
	load=loaded active=inactive sub=dead state=disabled
	[ -f $unit ] || load=not-found
	[ -f $here/enabled ] && state=enabled
	if lives; then active=active sub=running; else pid=0; fi
	[ -f $here/crashing ] && active=activating sub=auto-restart
	printf '%s\n' Id=etcd.service LoadState=$load ActiveState=$active SubState=$sub UnitFileState=$state FragmentPath=$unit MainPID=$pid NRestarts=0 ;;
esac
`

// fakeSystemd gives the host a systemctl.
func (h *host) fakeSystemd() {
	h.t.Helper()
	unit := h.path("units", "etcd.service")
	if h.space != nil {
		unit = "/" + defaults["units"] + "/etcd.service"
	}
	script := strings.NewReplacer("@DIR@", h.path("fake"), "@UNIT@", unit, "@ROOT@", h.root).Replace(fakeSystemctl)
	h.write(h.path("fake", "systemctl"), script, 0o755)
}

// systemdEtcd returns the process that the host's systemctl has started, 0 if
// it does not live.
func (h *host) systemdEtcd() int {
	b, _ := os.ReadFile(h.path("fake", "pid"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b))) // 0 where there is none
	return h.own(pid)
}

// withoutTools takes all programs but etcdadm out of the host's PATH: there is
// no systemctl.
func (h *host) withoutTools() { h.vars["PATH"] = filepath.Dir(h.program) }

// podVariable is a variable of etcd in the manifest.
var podVariable = regexp.MustCompile(`- name: ([^\n]*)\n\s+value: ([^\n]*)\n`)

// scalar reads a string that is plain or in double quotes.
func scalar(s string) (string, error) {
	if strings.HasPrefix(s, `"`) {
		return strconv.Unquote(s)
	}
	return s, nil
}

// podEnv returns etcd's environment in a manifest.
func podEnv(t *testing.T, manifest string) map[string]string {
	t.Helper()
	vars := map[string]string{}
	for _, m := range podVariable.FindAllStringSubmatch(manifest, -1) {
		name, err1 := scalar(m[1])
		value, err2 := scalar(m[2])
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		vars[name] = value
	}
	return vars
}

// fakeKubelet runs the etcd of the manifest at path for as long as it is there,
// and again when it changes.
func (h *host) fakeKubelet(path string) {
	h.t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	h.t.Cleanup(func() {
		close(stop)
		<-done
	})
	go func() {
		defer close(done)
		var pod *exec.Cmd
		var runs string
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for on := true; on; {
			wanted := ""
			select {
			case <-stop:
				on = false
			case <-tick.C:
				b, _ := os.ReadFile(path) // "" where there is none
				wanted = string(b)
			}
			if wanted == runs {
				continue
			}
			if pod != nil {
				_ = pod.Process.Signal(syscall.SIGTERM)
				_ = pod.Wait()
				pod = nil
			}
			if runs = wanted; wanted != "" {
				pod = h.pod(wanted)
			}
		}
	}()
}

// pod starts the etcd of a manifest.
func (h *host) pod(manifest string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(h.binaries, "etcd"))
	cmd.Env = []string{"HOST_OF_TEST=" + h.root + "/"}
	for k, v := range podEnv(h.t, manifest) {
		cmd.Env = append(cmd.Env, k+"="+strings.ReplaceAll(v, "$$", "$"))
	}
	// A container's output goes to the kubelet.
	log, err := os.OpenFile(h.path("fake", "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		defer log.Close()
		cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, h.root
		err = h.start(cmd)
	}
	if err != nil {
		h.t.Errorf("%s: start the pod: %v", h.name, err)
		return nil
	}
	return cmd
}
