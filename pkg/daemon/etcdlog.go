package daemon

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/etcdadm/etcdadm/pkg/internal/logfile"
)

const (
	// etcdLogName is the file of etcd's own log in the data directory, etcdLogSize at how
	// many bytes it begins again, with the one before beside it.
	etcdLogName = "etcd.log"
	etcdLogSize = 16 << 20
	// etcdLogQueue is how many lines may wait for the disk, etcdLogEndTimeout for how long those
	// are waited for that still do at the end.
	etcdLogQueue      = 256
	etcdLogEndTimeout = time.Second
	// Of its errors so many are passed on at once, and one more each time.
	errorBurst    = 20
	errorInterval = 10 * time.Second
)

// openEtcdLog opens the file of etcd's log, if it is to have one. Without it etcd runs all
// the same.
func (d *Daemon) openEtcdLog() *etcdLog {
	dir := ""
	if d.c.EtcdLogFile {
		dir = d.c.DataDir
	}
	lines, err := newEtcdLog(d.c.EtcdLog, dir)
	if err != nil {
		d.log.Warn("etcd's log is in this output", "error", err)
	} else if lines.path != "" {
		d.log.Info("etcd's log is in a file, only its errors are here, too", "file", lines.path)
	}
	d.onClose(func(context.Context) { lines.close() })
	return lines
}

func (d *Daemon) etcdDied(how string) {
	d.log.Warn("etcd ended by itself and is restarted", "how", how)
}

// An etcdLog takes the lines that etcd prints. Nothing that calls it waits for the disk.
type etcdLog struct {
	out io.Writer
	// path is where the lines go, empty where all are for out.
	path  string
	file  *logfile.Log
	lines chan string
	// end is closed when there are to be no more, done when the last one is written.
	end, done chan struct{}
	// lost is how many lines had no room in the queue.
	lost atomic.Int64
	// limit is for errors that are passed on, omitted how many were not.
	limit   *rate.Limiter
	omitted int
}

// newEtcdLog returns a log to a file in dir, or to out where dir is empty.
func newEtcdLog(out io.Writer, dir string) (*etcdLog, error) {
	if out == nil {
		out = io.Discard
	}
	l := &etcdLog{out: out, limit: rate.NewLimiter(rate.Every(errorInterval), errorBurst)}
	if dir == "" {
		return l, nil
	}
	file, err := logfile.Open(filepath.Join(dir, etcdLogName), etcdLogSize)
	if err != nil {
		return l, err
	}
	l.path, l.file = filepath.Join(dir, etcdLogName), file
	l.lines, l.end, l.done = make(chan string, etcdLogQueue), make(chan struct{}), make(chan struct{})
	go l.write()
	return l, nil
}

// write writes lines until the end, and then those that still wait.
func (l *etcdLog) write() {
	defer close(l.done)
	defer l.file.Close()
	for {
		select {
		case text := <-l.lines:
			l.add(text)
			continue
		case <-l.end:
		}
		for {
			select {
			case text := <-l.lines:
				l.add(text)
			default:
				return
			}
		}
	}
}

func (l *etcdLog) add(text string) {
	if n := l.lost.Swap(0); n > 0 {
		l.file.Line(fmt.Sprintf("etcdadm: %d lines were omitted: the disk is too slow for them", n))
	}
	l.file.Line(text)
}

// line takes a line. It is called by one goroutine at a time.
func (l *etcdLog) line(text string) {
	if l.path == "" {
		l.say(text)
		return
	}
	select {
	case l.lines <- text:
	default:
		l.lost.Add(1)
	}
	switch level := levelOf(text); {
	case level == "":
		l.say(text) // a panic, or what etcd prints before it has a log
	case !severe[level]:
	case !l.limit.Allow():
		l.omitted++
	default:
		if l.omitted > 0 {
			l.say(fmt.Sprintf("(%d more errors are in %s)", l.omitted, l.path))
			l.omitted = 0
		}
		l.say(text)
	}
}

func (l *etcdLog) say(text string) { fmt.Fprintf(l.out, "etcd: %s\n", text) }

// close ends it. An etcd that a hung disk kept from ending may still print a line: that is lost.
func (l *etcdLog) close() {
	if l.path == "" {
		return
	}
	close(l.end)
	select {
	case <-l.done:
	case <-time.After(etcdLogEndTimeout): // the disk hangs
	}
}

// logLevel finds the level of a line: in JSON, in zap's form for consoles (ETCD_LOG_FORMAT), or as
// etcd before 3.4 writes it.
var logLevel = regexp.MustCompile(
	`^(?:\{"level":"([a-z]+)"|\d{4}-\d\d-\d\dT\S+\t([a-z]+)\t|\d{4}-\d\d-\d\d [0-9:.]+ ([A-Z]) \| )`)

// severe are the levels of what a person may have to do something about.
var severe = map[string]bool{"error": true, "dpanic": true, "panic": true, "fatal": true, "E": true, "C": true}

// levelOf returns the level of a line, "" where it has none.
func levelOf(line string) string {
	m := logLevel.FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	return m[1] + m[2] + m[3]
}
