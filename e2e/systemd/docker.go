//go:build e2e

package systemd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// A Result is what a command left: its output and its exit code.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// String shows all of it, for messages.
func (r Result) String() string {
	return fmt.Sprintf("exit code %d\n--- stdout\n%s\n--- stderr\n%s",
		r.Code, strings.TrimRight(r.Stdout, "\n"), strings.TrimRight(r.Stderr, "\n"))
}

// run runs Docker's client. The error is about the client, not about its exit
// code.
func run(ctx context.Context, stdin io.Reader, args ...string) (Result, error) {
	cmd := exec.CommandContext(ctx, "docker", args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	r := Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}
	if ctx.Err() != nil {
		return r, fmt.Errorf("docker %s: %w\n%s", args[0], context.Cause(ctx), r)
	}
	if err != nil && r.Code <= 0 {
		return r, fmt.Errorf("docker %s: %w", args[0], err)
	}
	return r, nil
}

// docker runs a command of Docker's client that has to succeed, and returns its
// output without the last newline.
func docker(ctx context.Context, args ...string) (string, error) {
	return dockerWith(ctx, nil, args...)
}

// dockerWith is docker with an input.
func dockerWith(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	r, err := run(ctx, stdin, args...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("docker %s: %s", strings.Join(args, " "), r)
	}
	return strings.TrimSpace(r.Stdout), err
}

// poll asks until the answer is yes, an error or the context's end.
func poll(ctx context.Context, ask func() (bool, error)) error {
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
