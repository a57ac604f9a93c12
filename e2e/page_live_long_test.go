//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// A tab shows one page in a browser for as long as the test runs. It is asked by the protocol of
// the browser's own tools: JSON on two pipes, a zero byte behind each message.
type tab struct {
	t       *testing.T
	in      *os.File
	out     *bufio.Reader
	session string
	calls   int
}

// openTab opens a page in a browser of the given width.
func openTab(t *testing.T, url string, width int) *tab {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip(noBrowser)
	}
	theirIn, in, err := os.Pipe()
	must(t, err)
	out, theirOut, err := os.Pipe()
	must(t, err)
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--user-data-dir="+t.TempDir(), fmt.Sprintf("--window-size=%d,1800", width), "--remote-debugging-pipe")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	must(t, cmd.Start())
	must(t, errors.Join(theirIn.Close(), theirOut.Close()))
	b := &tab{t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		// It ends by itself when nobody can ask it any more.
		_ = in.Close()
		timer := time.AfterFunc(harness.Soon, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
		_ = out.Close()
	})
	// Whatever it does not answer ends with the test's own bound on time.
	must(t, out.SetReadDeadline(time.Now().Add(10*time.Minute)))
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": url}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	return b
}

// call calls a method of the browser, which has to do it.
func (b *tab) call(method string, params, result any) {
	b.t.Helper()
	if err := b.try(method, params, result); err != nil {
		b.t.Fatal(err)
	}
}

// try calls a method of the browser and waits for its answer; what happens meanwhile is left out.
func (b *tab) try(method string, params, result any) error {
	b.t.Helper()
	b.calls++
	message := map[string]any{"id": b.calls, "method": method, "params": params}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	text, err := json.Marshal(message)
	must(b.t, err)
	_, err = b.in.Write(append(text, 0))
	must(b.t, err)
	for {
		text, err := b.out.ReadBytes(0)
		must(b.t, err)
		var answer struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		must(b.t, json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &answer))
		if answer.ID != b.calls {
			continue
		}
		if answer.Error != nil {
			return fmt.Errorf("%s: %s", method, answer.Error.Message)
		}
		return json.Unmarshal(answer.Result, result)
	}
}

// value returns what a script says in the page, which is a text; none while the page only comes.
func (b *tab) value(script string) string {
	b.t.Helper()
	var answer struct{ Result struct{ Value string } }
	if err := b.try("Runtime.evaluate", map[string]any{"expression": script}, &answer); err != nil {
		b.t.Log(err)
	}
	return answer.Result.Value
}

// shows returns an error while the page does not call the cluster so, or does not say all parts
// where people see them.
func (b *tab) shows(health string, parts ...string) error {
	b.t.Helper()
	if got := b.value(`(document.getElementById("health") || {textContent: ""}).textContent`); got != health {
		return fmt.Errorf("it is called %q", got)
	}
	seen := strings.Join(strings.Fields(b.value(`document.body.innerText`)), " ")
	for _, p := range parts {
		if !strings.Contains(seen, p) {
			return fmt.Errorf("it does not say %q: %s", p, seen)
		}
	}
	return nil
}

// picture writes what is to be seen, where ETCDADM_SCREENSHOTS names a directory.
func (b *tab) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("ETCDADM_SCREENSHOTS")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	must(b.t, err)
	must(b.t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600))
}

// A browser at the URL that etcdadm dashboard prints shows a real cluster of three: well, with a
// machine that is gone, well again when it is back, and that nobody answers when the dashboard
// itself has ended. The page is loaded once.
func TestStatusPageIsLiveInABrowser(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip(noBrowser)
	}
	port := testport.Free(t)
	c := start(t, fmt.Sprintf("--etcd-manager-metrics-port=%d", port))
	c.Bootstrap(3, v36, "a", "b", "c")
	pki := c.Node("a").InstallPKI()
	url, end := startDashboard(t, c, "--nodes="+c.Node("a").Endpoint()+","+c.Node("b").Endpoint(),
		fmt.Sprintf("--metrics-port=%d", port), "--pki-dir="+pki)
	page := openTab(t, url, 1200)
	wait := func(what, health string, parts ...string) {
		t.Helper()
		c.Eventually(harness.Soon, "the page shows "+what, func(context.Context) error {
			return page.shows(health, parts...)
		})
		page.picture("live-" + health)
	}
	wait("a healthy cluster", "healthy", "as the spec says", "3 of etcd "+v36)
	born := page.value("String(performance.timeOrigin)")

	const lines = `[...document.querySelectorAll("#graph line")].map((l) => l.getAttribute("class")).sort().join()`
	if got := page.value(lines); got != "up,up,up" {
		t.Errorf("the links of a healthy cluster are drawn as %s", got)
	}
	// The daemon of c hangs, and its etcd serves.
	c.Node("c").Pause()
	wait("that the daemon of c does not answer", "degraded", "the daemon of node c does not answer (seen ",
		"check whether etcd-manager runs there")
	if got := page.value(lines); got != "unknown,unknown,up" {
		t.Errorf("the links of a machine whose daemon hangs are drawn as %s", got)
	}
	c.Node("c").Continue()
	wait("that c answers again", "healthy", "as the spec says")

	c.Node("c").Kill()
	wait("that c is gone", "degraded", "no answer")
	c.Node("c").Start()
	c.Eventually(harness.Soon, "the page shows that c is back", func(context.Context) error {
		if page.shows("healthy", "no answer") == nil {
			return errors.New("c does not answer yet")
		}
		return page.shows("healthy", "as the spec says")
	})

	end()
	wait("that nobody answers", "STALE", "the daemon does not answer")
	const colour = `getComputedStyle(document.querySelector("#graph line")).stroke === ` +
		`getComputedStyle(document.getElementById("freshness")).color ? "quiet" : "not"`
	if got := page.value(colour); got != "quiet" {
		t.Error("links of a page that is STALE are drawn as if they were known")
	}
	if now := page.value("String(performance.timeOrigin)"); now != born || born == "" {
		t.Errorf("the page was loaded again: %s, %s", born, now)
	}
}
