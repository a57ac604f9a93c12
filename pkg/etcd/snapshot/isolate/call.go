package isolate

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// maxTime bounds a call, whatever its context says.
	maxTime = time.Hour
	// baseMemory is what a process may take without regard to the size of its data.
	baseMemory = 256 << 20
	// maxMessage bounds a line of the answer.
	maxMessage = 4 << 20
	// maxSaid bounds what is kept of what the process says as it dies.
	maxSaid = 64 << 10
	// waitDelay is how long its output is waited for after it has ended.
	waitDelay = time.Second
)

// PerByte returns a bound of memory for what takes up to n bytes for each byte of data.
func PerByte(n int64) func(size int64) int64 {
	return func(size int64) int64 { return baseMemory + n*size }
}

// An EndedError says that the process ended before it had an answer.
type EndedError struct {
	// State is how it ended, Said the reason by its own words.
	State, Said string
	// fault is what that means, nil where it is not the data's fault.
	fault error
}

func (e *EndedError) Error() string {
	text := "the process that reads it ended (" + e.State + ")"
	if e.Said != "" {
		text += ": " + e.Said
	}
	return text
}

// Unwrap returns what it means.
func (e *EndedError) Unwrap() error { return e.fault }

// A reportedError is one of the process.
type reportedError struct {
	text string
	is   []error
}

func (e *reportedError) Error() string   { return e.text }
func (e *reportedError) Unwrap() []error { return e.is }

// Call has a process of its own run the function. It waits for the end of that, which
// comes with the end of ctx.
func (f Func[In, Out]) Call(ctx context.Context, in Input[In]) (out Out, err error) {
	if !served.Load() {
		return out, errNoCommand
	}
	value, err := json.Marshal(in.Value)
	if err != nil {
		return out, err
	}
	memory := int64(baseMemory)
	if f.o.Memory != nil {
		memory = f.o.Memory(in.Size)
	}
	r, err := json.Marshal(request{Name: f.name, Value: value, Memory: memory})
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	m, err := run(ctx, r, memory, in.Progress, f.o.Fault)
	switch {
	case err != nil:
		return out, err
	case m.Error != "":
		reported := &reportedError{text: m.Error}
		for _, e := range f.o.Errors {
			if slices.Contains(m.Kinds, e.Error()) {
				reported.is = append(reported.is, e)
			}
		}
		return out, reported
	}
	return out, json.Unmarshal(m.Value, &out)
}

// run runs the process. The thread that starts it lives as long as it does: the kernel
// ends the process with that thread.
func run(ctx context.Context, r []byte, memory int64, progress func(done, total int64), fault error) (message, error) {
	type result struct {
		m   message
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		m, err := process(ctx, r, memory, progress, fault)
		done <- result{m, err}
	}()
	x := <-done
	return x.m, x.err
}

func process(ctx context.Context, r []byte, memory int64, progress func(done, total int64), fault error) (message,
	error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", command)
	// The name under which a program was started may say what it is.
	cmd.Args[0] = os.Args[0]
	// No variable of ours is for it: some are secrets. Its collector works harder as it
	// comes near its bound.
	cmd.Env = []string{"GOMEMLIMIT=" + strconv.FormatInt(memory/4*3, 10), "GOTRACEBACK=single"}
	cmd.Stdin = bytes.NewReader(r)
	said := &head{}
	cmd.Stderr = said
	cmd.WaitDelay = waitDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return message{}, err
	}
	if err := cmd.Start(); err != nil {
		return message{}, fmt.Errorf("start a process to read it: %w", err)
	}
	end, bad := listen(stdout, progress)
	if bad != nil {
		_ = cmd.Process.Kill() // it may have ended
	}
	ended := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return message{}, fmt.Errorf("the process that reads it was ended: %w", context.Cause(ctx))
	case end.End && ended == nil:
		return end, nil
	}
	e := &EndedError{State: cmd.ProcessState.String(), Said: said.reason()}
	if bad != nil && e.Said == "" {
		e.Said = bad.Error()
	}
	if faulty(cmd.ProcessState) && !said.noThread() {
		e.fault = fault
	}
	return message{}, e
}

// faulty reports whether the process ended by what it did: Go ends with 2 after a panic
// and for want of memory. One that was killed says nothing of its data.
func faulty(s *os.ProcessState) bool {
	w, ok := s.Sys().(syscall.WaitStatus)
	if !ok {
		return false
	}
	return w.Exited() && w.ExitStatus() == 2 ||
		w.Signaled() && slices.Contains([]syscall.Signal{
			syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGABRT, syscall.SIGILL, syscall.SIGFPE,
		}, w.Signal())
}

// listen reads the answer of the process.
func listen(r io.Reader, progress func(done, total int64)) (message, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return message{}, errors.New("its answer is malformed")
		}
		if m.End {
			return m, nil
		}
		if progress != nil {
			progress(m.Done, m.Total)
		}
	}
	return message{}, lines.Err()
}

// A head keeps the beginning of what is written to it.
type head struct{ b []byte }

func (h *head) Write(b []byte) (int, error) {
	h.b = append(h.b, b[:min(len(b), maxSaid-len(h.b))]...)
	return len(b), nil
}

// noThread reports whether the process died because the machine gave it no thread:
// of what it read that says nothing. The words are those of Go's runtime, and of the
// runtime with cgo.
func (h *head) noThread() bool {
	return bytes.Contains(h.b, []byte("failed to create new OS thread")) ||
		bytes.Contains(h.b, []byte("pthread_create failed"))
}

// reason is the line that says why a Go program died, or the first one.
func (h *head) reason() string {
	lines := strings.Split(strings.TrimSpace(string(h.b)), "\n")
	for _, prefix := range []string{"panic: ", "fatal error: ", "unexpected fault"} {
		if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, prefix) }); i >= 0 {
			return lines[i]
		}
	}
	return lines[0]
}
