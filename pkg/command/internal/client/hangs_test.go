package client

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// A hung member answers what it is asked, and does not go on with what takes long.
type hung struct {
	etcdserverpb.UnimplementedMaintenanceServer
	etcdserverpb.UnimplementedClusterServer
	etcdserverpb.UnimplementedKVServer
	url string
}

func (h *hung) header() *etcdserverpb.ResponseHeader {
	return &etcdserverpb.ResponseHeader{ClusterId: 1, MemberId: 2, Revision: 3, RaftTerm: 4}
}

func (h *hung) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return &etcdserverpb.StatusResponse{Header: h.header(), Version: "3.6.16", DbSize: 4 << 20, Leader: 2}, nil
}

func (h *hung) MemberList(context.Context, *etcdserverpb.MemberListRequest) (
	*etcdserverpb.MemberListResponse, error) {
	m := &etcdserverpb.Member{ID: 2, Name: "a", ClientURLs: []string{h.url}, PeerURLs: []string{"http://127.0.0.1:1"}}
	return &etcdserverpb.MemberListResponse{Header: h.header(), Members: []*etcdserverpb.Member{m}}, nil
}

func (h *hung) Range(context.Context, *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	return &etcdserverpb.RangeResponse{Header: h.header()}, nil
}

func (h *hung) Snapshot(_ *etcdserverpb.SnapshotRequest, s etcdserverpb.Maintenance_SnapshotServer) error {
	if err := s.Send(&etcdserverpb.SnapshotResponse{Blob: make([]byte, 1<<20), RemainingBytes: 3 << 20}); err != nil {
		return err
	}
	<-s.Context().Done()
	return s.Context().Err()
}

func (h *hung) Defragment(ctx context.Context, _ *etcdserverpb.DefragmentRequest) (
	*etcdserverpb.DefragmentResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// newHung starts such a member.
func newHung(t *testing.T) *hung {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hung{url: "http://" + l.Addr().String()}
	g := grpc.NewServer()
	etcdserverpb.RegisterMaintenanceServer(g, h)
	etcdserverpb.RegisterClusterServer(g, h)
	etcdserverpb.RegisterKVServer(g, h)
	var both http.Protocols
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	s := &http.Server{Protocols: &both, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			g.ServeHTTP(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"etcdserver":"3.6.16","etcdcluster":"3.6.0"}`)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return h
}

// TestAMemberThatHangsInTheMiddleIsNotWaitedForInSilence: it has answered at first, and does not go on.
func TestAMemberThatHangsInTheMiddleIsNotWaitedForInSilence(t *testing.T) {
	t.Parallel()
	h := newHung(t)
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a snapshot": {
			[]string{"snapshot", "save", filepath.Join(t.TempDir(), "db")},
			"note: etcd at " + h.url + " sends nothing; it is waited for 4s at most (--timeout), after 1.0 MiB of 4.0 MiB\n",
		},
		"a backup": {
			[]string{"snapshot", "save", "file://" + t.TempDir()},
			"note: the backup does not go on, for want of etcd at " + h.url + " or of the store, after 1.0 MiB of 4.0 MiB\n",
		},
		"a defragmentation": {
			[]string{"defrag"},
			"note: a has not answered yet whether it is done; it is waited for 4s at most",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, append(tc.args, "--endpoints="+h.url, "--insecure", "--timeout=4s")...)
			if r.code != 1 || strings.Count(r.stderr, tc.want) != 1 {
				t.Errorf("code %d, want once %q in\n%s", r.code, tc.want, r.stderr)
			}
		})
	}
}
