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
)

// A Space is how large a member's database is, in bytes.
type Space struct {
	// Size is that of the file, InUse what is left of it without free pages.
	Size  int64 `json:"size"`
	InUse int64 `json:"inUse"`
	// Quota is the size at which the cluster stops taking writes, zero where the
	// member does not say: its status has it from 3.6; see [Quota].
	Quota int64 `json:"quota,omitempty"`
}

// Space asks the member at an endpoint for the size of its database. It
// answers without a quorum.
func (c *Client) Space(ctx context.Context, endpoint string) (Space, error) {
	s, err := c.c.Status(ctx, endpoint)
	if err != nil {
		return Space{}, fmt.Errorf("status of %s: %w", endpoint, plain(err))
	}
	return Space{Size: s.DbSize, InUse: s.DbSizeInUse, Quota: s.DbSizeQuota}, nil
}

// quotaMetric is what etcd publishes its quota as, since 3.3.
const quotaMetric = "etcd_server_quota_backend_bytes "

// Quota reads the quota of the member at an endpoint out of its metrics, where
// its status does not have it: before 3.6.
func Quota(ctx context.Context, endpoint string, config *tls.Config) (int64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(endpoint, "/")+"/metrics", nil)
	if err != nil {
		return 0, fmt.Errorf("quota of %s: %w", endpoint, err)
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return 0, fmt.Errorf("quota of %s: %w", endpoint, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("quota of %s: its metrics answer with %s", endpoint, answer.Status)
	}
	quota, err := readQuota(answer.Body)
	if err != nil {
		return 0, fmt.Errorf("quota of %s: %w", endpoint, err)
	}
	return quota, nil
}

// maxMetrics bounds what is read of a member's metrics, which are some 100 KB.
const maxMetrics = 16 << 20

func readQuota(r io.Reader) (int64, error) {
	lines := bufio.NewScanner(io.LimitReader(r, maxMetrics))
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), quotaMetric)
		if !ok {
			continue
		}
		// "2.147483648e+09"
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v != v || v < 0 || v > 1<<60 {
			return 0, fmt.Errorf("its metrics say that it is %.40q", text)
		}
		return int64(v), nil
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, errors.New("its metrics do not have it")
}
