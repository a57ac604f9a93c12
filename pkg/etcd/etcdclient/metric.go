package etcdclient

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// errNoMetric says that a member's metrics lack the one that was asked for.
var errNoMetric = errors.New("its metrics do not have it")

// Received returns how many bytes of raft messages the member at an endpoint has had
// from another one since it started. A follower answers each heartbeat of its leader,
// so that of one that runs the leader's count grows all the time.
func Received(ctx context.Context, endpoint string, config *tls.Config, from cluster.MemberID) (int64, error) {
	n, err := metric(ctx, endpoint, config, fmt.Sprintf("etcd_network_peer_received_bytes_total{From=%q}", from.String()))
	switch {
	case errors.Is(err, errNoMetric):
		return 0, nil // nothing yet
	case err != nil:
		return 0, fmt.Errorf("what %s has had from member %s: %w", endpoint, from, err)
	}
	return int64(n), nil
}

// metric reads one number, at least zero, out of the metrics of the member at an
// endpoint.
func metric(ctx context.Context, endpoint string, config *tls.Config, name string) (float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(endpoint, "/")+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("its metrics answer with %s", answer.Status)
	}
	return readMetric(answer.Body, name)
}

// maxMetrics bounds what is read of a member's metrics, which are some 100 KB.
const maxMetrics = 16 << 20

func readMetric(r io.Reader, name string) (float64, error) {
	lines := bufio.NewScanner(io.LimitReader(r, maxMetrics))
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), name+" ")
		if !ok {
			continue
		}
		// "2.147483648e+09"
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v != v || v < 0 || v > 1<<60 {
			return 0, fmt.Errorf("its metrics say that it is %.40q", text)
		}
		return v, nil
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, errNoMetric
}
