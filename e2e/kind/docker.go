//go:build e2e

package kind

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path"
	"strings"
	"testing"
	"time"
)

// command runs a program on this host, and returns what it printed.
func command(ctx context.Context, stdin io.Reader, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(stdout.String() + stderr.String())
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, last(text, 4000))
	}
	return stdout.String(), nil
}

// last returns the end of a long text.
func last(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return "..." + text[len(text)-n:]
}

// docker runs a command of Docker's client.
func docker(ctx context.Context, args ...string) (string, error) {
	out, err := command(ctx, nil, "docker", args...)
	return strings.TrimSpace(out), err
}

// A machine is a node that kind made, by the name of its container.
type machine string

// run runs a shell script on the machine.
func (m machine) run(ctx context.Context, script string) (string, error) {
	return docker(ctx, "exec", string(m), "sh", "-ec", script)
}

// must is run for a script that has to succeed.
func (m machine) must(t *testing.T, script string) string {
	t.Helper()
	out, err := m.run(t.Context(), script)
	if err != nil {
		t.Fatalf("on %s: %v", m, err)
	}
	return out
}

// put writes files, by their paths.
func (m machine) put(t *testing.T, files map[string][]byte) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range files {
		head := &tar.Header{Name: strings.TrimPrefix(path.Clean(name), "/"), Mode: 0o600, Size: int64(len(text))}
		if err := w.WriteHeader(head); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := command(t.Context(), &b, "docker", "exec", "-i", string(m), "tar", "-xf", "-", "-C", "/"); err != nil {
		t.Fatalf("write files of %s: %v", m, err)
	}
}

// copy copies files from one machine to another.
func (m machine) copy(t *testing.T, to machine, files ...string) {
	t.Helper()
	texts := map[string][]byte{}
	for _, f := range files {
		texts[f] = []byte(m.must(t, "cat "+f) + "\n")
	}
	to.put(t, texts)
}

// address returns the machine's address in kind's network.
func (m machine) address(t *testing.T) string {
	t.Helper()
	out, err := docker(t.Context(), "inspect", "--format={{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", string(m))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// await asks again and again until there is no error.
func await(t *testing.T, what string, d time.Duration, ask func(context.Context) error) {
	t.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			t.Logf("%s after %.1f s", what, time.Since(start).Seconds())
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not in %s: %s: %v", d, what, err)
		case <-tick.C:
		}
	}
}
