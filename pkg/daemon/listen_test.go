package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
)

func TestAPortThatIsTakenIsTriedAgain(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var log bytes.Buffer
	d := &Daemon{log: slog.New(slog.NewTextHandler(&log, nil))}
	short, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer end()
	if _, err := d.listen(short, "metrics", taken.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if strings.Count(log.String(), "a port cannot be opened; etcd keeps running, and opening is retried") != 1 {
		t.Errorf("it says %q", log.String())
	}
	must(t, taken.Close())
	l, err := d.listen(t.Context(), "metrics", taken.Addr().String())
	must(t, err)
	must(t, l.Close())
}
