// Package isolate has data of unknown origin read by a process of its own. What it makes
// that process do, panic or fault or take memory without end, ends nothing else.
//
// The process is this program once more, with a command that no help lists. It has a
// bound of memory and time and no environment, and it ends with its parent.
package isolate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// A Func is a function that runs in a process of its own.
type Func[In, Out any] struct {
	name string
	o    Options
}

// Options say what becomes of a function's end.
type Options struct {
	// Fault is what it means that the process ended by a panic, a fault, or for want of
	// memory.
	Fault error
	// Errors are those that a caller distinguishes, with errors.Is. Of any other only the
	// text comes back.
	Errors []error
	// Memory is how many bytes the process may take besides what the program has anyhow.
	Memory func(size int64) int64
}

// An Input is what a call hands to the process.
type Input[In any] struct {
	Value In
	// Size is that of the data, which bounds the memory.
	Size int64
	// Progress, if not nil, receives how much is done.
	Progress func(done, total int64)
}

// A task is the side of the process.
type task struct {
	run func(ctx context.Context, in json.RawMessage, progress func(done, total int64)) (any, error)
	// errors are those that the caller distinguishes.
	errors []error
}

// tasks are the functions by name. They are defined by variables of packages, and not
// changed later.
var tasks = map[string]*task{}

// Define makes f a function that runs in a process of its own. It is for variables of
// packages: the process must know the same functions.
func Define[In, Out any](name string, o Options,
	f func(ctx context.Context, in In, progress func(done, total int64)) (Out, error)) Func[In, Out] {
	if tasks[name] != nil {
		panic("isolate: " + name + " is defined twice")
	}
	run := func(ctx context.Context, in json.RawMessage, progress func(done, total int64)) (any, error) {
		var v In
		if err := json.Unmarshal(in, &v); err != nil {
			return nil, err
		}
		return f(ctx, v, progress)
	}
	tasks[name] = &task{run, o.Errors}
	return Func[In, Out]{name, o}
}

// command is the hidden one.
const command = "isolated-task"

// served says that this program has the command.
var served atomic.Bool

// errNoCommand is a mistake in the program.
var errNoCommand = errors.New(
	"this program cannot start itself to read data: its main function does not call isolate.Main")

// A request is what the process reads from its standard input.
type request struct {
	Name   string          `json:"name"`
	Value  json.RawMessage `json:"value"`
	Memory int64           `json:"memory"`
}

// A message is a line of what the process writes to its standard output.
type message struct {
	Done  int64           `json:"done,omitempty"`
	Total int64           `json:"total,omitempty"`
	End   bool            `json:"end,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
	// Kinds are the texts of those of the function's Errors that the error is.
	Kinds []string `json:"kinds,omitempty"`
}

// reportInterval is how often the process reports its progress.
const reportInterval = 100 * time.Millisecond

// Main does the work of the process if the arguments (without the program's name) say so,
// and reports the exit code. Every program that calls a [Func] calls it first.
func Main(ctx context.Context, args []string, in io.Reader, out io.Writer) (code int, ok bool) {
	served.Store(true)
	if len(args) != 1 || args[0] != command {
		return 0, false
	}
	if err := serve(ctx, in, out); err != nil {
		return 1, true // the parent has gone
	}
	return 0, true
}

func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var r request
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return err
	}
	w := json.NewEncoder(out)
	f := tasks[r.Name]
	if f == nil {
		return w.Encode(message{End: true, Error: fmt.Sprintf("there is no function %q", r.Name)})
	}
	if err := confine(r.Memory); err != nil {
		return w.Encode(message{End: true, Error: fmt.Sprintf("bound the process: %v", err)})
	}
	var reported time.Time
	v, err := f.run(ctx, r.Value, func(done, total int64) {
		if now := time.Now(); now.Sub(reported) >= reportInterval || done == total {
			reported = now
			// Who does not hear it has gone, and takes this process with it.
			_ = w.Encode(message{Done: done, Total: total})
		}
	})
	m := message{End: true}
	if err == nil {
		m.Value, err = json.Marshal(v)
	}
	if err != nil {
		m = message{End: true, Error: err.Error()}
		for _, e := range f.errors {
			if errors.Is(err, e) {
				m.Kinds = append(m.Kinds, e.Error())
			}
		}
	}
	return w.Encode(m)
}
