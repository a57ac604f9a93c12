package etcdclient

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
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

// A LeaderView is what a leader has counted of another member since it started.
type LeaderView struct {
	// Received is as of [Received].
	Received int64
	// Snapshots of the database are those that it has sent whole, FailedSnapshots those that
	// it could not send.
	Snapshots, FailedSnapshots int64
}

// AsLeader returns what the member at an endpoint has counted of another one. It is an error
// if that member is not the leader.
func AsLeader(ctx context.Context, endpoint string, config *tls.Config, of cluster.MemberID) (LeaderView, error) {
	labels := fmt.Sprintf("{To=%q}", of.String())
	const leads = "etcd_server_is_leader"
	received := fmt.Sprintf("etcd_network_peer_received_bytes_total{From=%q}", of.String())
	sent, failed := "etcd_network_snapshot_send_success"+labels, "etcd_network_snapshot_send_failures"+labels
	n, err := metrics(ctx, endpoint, config, leads, received, sent, failed)
	if err == nil && n[leads] != 1 {
		err = errors.New("it does not answer as the leader") // a load balancer, for one
	}
	if err != nil {
		return LeaderView{}, fmt.Errorf("what %s knows of member %s: %w", endpoint, of, err)
	}
	return LeaderView{
		Received: int64(n[received]), Snapshots: int64(n[sent]), FailedSnapshots: int64(n[failed]),
	}, nil
}

// ActivePeers says of the other members whether the member at an endpoint, which is self, reaches
// their peer ports: it connects to each, and tries again ten times a second. Those that it does not
// have are left out, as all are before 3.4.
func ActivePeers(ctx context.Context, endpoint string, config *tls.Config, self cluster.MemberID) (
	map[cluster.MemberID]bool, error) {
	prefix := fmt.Sprintf("etcd_network_active_peers{Local=%q,Remote=", self.String())
	values, err := metricsWhere(ctx, endpoint, config, func(name string) bool { return strings.HasPrefix(name, prefix) })
	if err != nil {
		return nil, fmt.Errorf("whom %s reaches: %w", endpoint, err)
	}
	active := map[cluster.MemberID]bool{}
	for name, n := range values {
		text := strings.Trim(strings.TrimPrefix(name, prefix), `"}`)
		id, err := strconv.ParseUint(text, 16, 64)
		if err != nil {
			return nil, fmt.Errorf("its metrics name a member %.40q", text)
		}
		active[cluster.MemberID(id)] = n > 0
	}
	return active, nil
}

// metric reads one number, at least zero, out of the metrics of the member at an
// endpoint.
func metric(ctx context.Context, endpoint string, config *tls.Config, name string) (float64, error) {
	values, err := metrics(ctx, endpoint, config, name)
	if _, ok := values[name]; err == nil && !ok {
		err = errNoMetric
	}
	return values[name], err
}

// metrics reads several, without those that the member does not have.
func metrics(ctx context.Context, endpoint string, config *tls.Config, names ...string) (map[string]float64, error) {
	return metricsWhere(ctx, endpoint, config, func(name string) bool { return slices.Contains(names, name) })
}

// metricsWhere reads those whose names are wanted.
func metricsWhere(ctx context.Context, endpoint string, config *tls.Config, wanted func(name string) bool) (
	map[string]float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(endpoint, "/")+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("its metrics answer with %s", answer.Status)
	}
	return readMetrics(answer.Body, wanted)
}

// maxMetrics bounds what is read of a member's metrics, which are some 100 KB.
const maxMetrics = 16 << 20

func readMetrics(r io.Reader, wanted func(name string) bool) (map[string]float64, error) {
	values := map[string]float64{}
	lines := bufio.NewScanner(io.LimitReader(r, maxMetrics))
	for lines.Scan() {
		name, text, ok := strings.Cut(lines.Text(), " ")
		if !ok || !wanted(name) {
			continue
		}
		// "2.147483648e+09"
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v != v || v < 0 || v > 1<<60 {
			return nil, fmt.Errorf("its metrics say that %s is %.40q", name, text)
		}
		values[name] = v
	}
	return values, lines.Err()
}
