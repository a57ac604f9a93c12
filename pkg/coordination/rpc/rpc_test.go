package rpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/internal/nodepb"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// handler records its calls and answers with what it has.
type handler struct {
	mu   sync.Mutex
	from []rpc.Caller
	ran  []plan.Order

	err   error
	panic any
	block bool // Observe waits for the end of the call
	// hold, if not nil, has Observe wait until it is closed: then the answer
	// cannot come in the moment in which the server's deadline has passed and the
	// caller's has not.
	hold chan struct{}
}

func (h *handler) note(from rpc.Caller) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.from = append(h.from, from)
	if h.panic != nil {
		panic(h.panic)
	}
	return h.err
}

func (h *handler) Observe(ctx context.Context, from rpc.Caller) (cluster.Answer, error) {
	if h.block {
		<-ctx.Done()
	}
	if h.hold != nil {
		<-h.hold
	}
	return answer(), h.note(from)
}

func (h *handler) Execute(_ context.Context, from rpc.Caller, e plan.Order) error {
	h.mu.Lock()
	h.ran = append(h.ran, e)
	h.mu.Unlock()
	return h.note(from)
}

func (h *handler) Lease(_ context.Context, from rpc.Caller, req lease.Request) (lease.Reply, error) {
	return lease.Reply{Granted: true, Term: req.Term, LeaseVoters: req.LeaseVoters, Remaining: time.Second}, h.note(from)
}

func (h *handler) Standing(_ context.Context, from rpc.Caller) (lease.Standing, error) {
	return lease.Standing{Term: 7, Holder: "a", Remaining: time.Second}, h.note(from)
}

func (h *handler) last(t *testing.T) rpc.Caller {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.from) == 0 {
		t.Fatal("the handler was not called")
	}
	return h.from[len(h.from)-1]
}

func answer() cluster.Answer {
	return cluster.Answer{
		Node: cluster.Node{Name: "b", Address: "127.0.0.1:1", Disk: cluster.Disk{
			State: cluster.DiskData, MemberID: 0xfedcba9876543210,
		}},
		Report: &cluster.Report{ID: 1<<63 + 1, Revision: 7},
		Now:    time.Unix(1e9, 1).UTC(),
	}
}

// listen serves the node name and returns its address.
func listen(t *testing.T, conf *tls.Config, h rpc.Handler, more ...func(*rpc.Server)) string {
	t.Helper()
	s, err := rpc.NewServer(rpc.ServerOptions{Name: "b", Cluster: "main", Handler: h, TLS: conf, Identify: identify})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range more {
		f(s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		s.Stop(ctx)
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

func pool(t *testing.T, o rpc.PoolOptions) *rpc.Pool {
	t.Helper()
	p := rpc.NewPool(o)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func short(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func wantKind(t *testing.T, err error, kind rpc.Kind, text string) {
	t.Helper()
	if rpc.KindOf(err) != kind || err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v of kind %q, want kind %q and %q in it", err, rpc.KindOf(err), kind, text)
	}
}

var remove = &plan.Remove{ID: 3, ExpectName: "c", ExpectVoters: 3}

// send sends an order as it is on the wire, whether it makes sense or not.
func send(t *testing.T, p *rpc.Pool, to rpc.Node, req *nodepb.ExecuteRequest) error {
	t.Helper()
	conn, err := p.Conn(to.Name, to.Address)
	if err != nil {
		t.Fatal(err)
	}
	_, err = nodepb.NewNodeClient(conn).Execute(short(t), req)
	return rpc.FromStatus(err)
}

func TestCallsOverTLS(t *testing.T) {
	ca, h := newCA(t), &handler{}
	b := rpc.Node{Name: "b", Address: listen(t, ca.server("b"), h)}
	p := pool(t, ca.client(clientPrefix+"a"))
	ctx := short(t)

	hello, err := p.Hello(ctx, b.Address)
	if err != nil || hello != (rpc.Identity{Name: "b", Cluster: "main"}) {
		t.Errorf("hello: %+v, %v", hello, err)
	}
	seen, err := p.Observe(ctx, b, "main")
	if err != nil || !reflect.DeepEqual(seen, answer()) {
		t.Errorf("observe: %+v, %v", seen, err)
	}
	if from := h.last(t); from != (rpc.Caller{Name: "a", Role: rpc.RoleNode, Authenticated: true}) {
		t.Errorf("the caller is %+v", from)
	}

	record := cluster.LeaseVoters{Token: "tok", Term: 4, Names: []cluster.NodeName{"a", "b"}}
	order := plan.Order{Operation: remove, Term: 4, Holder: "a", LeaseVoters: record, ID: "the first"}
	if err := p.Execute(ctx, b, "main", order); err != nil {
		t.Errorf("execute: %v", err)
	}
	order.ID = strings.Repeat("x", 65)
	wantKind(t, p.Execute(ctx, b, "main", order), rpc.Invalid, "the order's id has 65 bytes")
	order.ID = "the first"
	if !reflect.DeepEqual(h.ran[0], order) {
		t.Errorf("the handler got %+v, want %+v", h.ran[0], order)
	}

	reply, err := p.Lease(ctx, b, lease.Request{Cluster: "main", Term: 5, Holder: "a", LeaseVoters: record})
	if err != nil || !reply.Granted || reply.Term != 5 || !reflect.DeepEqual(reply.LeaseVoters, record) ||
		reply.Remaining != time.Second {
		t.Errorf("lease: %+v, %v", reply, err)
	}
}

func TestNobodyActsForAnother(t *testing.T) {
	ca, h := newCA(t), &handler{}
	b := rpc.Node{Name: "b", Address: listen(t, ca.server("b"), h)}
	ctx := short(t)
	node, operator := pool(t, ca.client(clientPrefix+"a")), pool(t, ca.client("operator"))

	execute := func(p *rpc.Pool, cluster string, holder cluster.NodeName, argv ...string) error {
		return send(t, p, b, &nodepb.ExecuteRequest{Cluster: cluster, Holder: string(holder), Argv: argv})
	}
	argv := plan.Argv(remove)
	wantKind(t, execute(node, "main", "c", argv...), rpc.Refused, "a cannot act as c")
	wantKind(t, execute(node, "main", "", argv...), rpc.Refused, "a cannot act")
	wantKind(t, execute(node, "events", "a", argv...), rpc.Refused, "node b belongs to cluster main, not \"events\"")
	wantKind(t, execute(operator, "main", "a", argv...), rpc.Refused, "operator-alice cannot act as a")
	for _, bad := range [][]string{
		nil, {"member"}, {"sh", "-c", "id"}, {"member", "remove", "--id=3", "--force=1"}, append(argv, "; id"),
	} {
		wantKind(t, execute(node, "main", "a", bad...), rpc.Invalid, "")
	}
	_, err := node.Lease(ctx, b, lease.Request{Cluster: "main", Holder: "c"})
	wantKind(t, err, rpc.Refused, "a cannot act as c")
	_, err = node.Observe(ctx, b, "events")
	wantKind(t, err, rpc.Refused, "belongs to cluster main")
	var refused *rpc.Error
	if !errors.As(err, &refused) || refused.OtherCluster() != "main" {
		t.Errorf("the refusal does not say of which cluster the node is: %#v", err)
	}
	if len(h.from) != 0 {
		t.Fatalf("the handler was called: %+v", h.from)
	}

	if err := execute(operator, "main", "operator-alice", argv...); err != nil {
		t.Error(err)
	}
	if from := h.last(t); from.Role != rpc.RoleOperator || !from.Authenticated || from.Name != "operator-alice" {
		t.Errorf("the operator is %+v", from)
	}
}

// One who may only look calls what shows, and nothing that acts; services that
// say nothing of it are for nodes.
func TestWhatAKindOfCertificatePermits(t *testing.T) {
	ca, h := newCA(t), &handler{}
	address := listen(t, ca.server("b"), h, func(s *rpc.Server) {
		s.RegisterService(&grpc.ServiceDesc{ServiceName: "other", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
			MethodName: "Do",
			Handler: func(_ any, ctx context.Context, read func(any) error, through grpc.UnaryServerInterceptor) (any, error) {
				in := &emptypb.Empty{}
				if err := read(in); err != nil {
					return nil, err
				}
				info := &grpc.UnaryServerInfo{FullMethod: "/other/Do"}
				return through(ctx, in, info, func(context.Context, any) (any, error) { return in, nil })
			},
		}}}, h)
	})
	b := rpc.Node{Name: "b", Address: address}
	stop := &plan.MemberStop{Node: "b", ExpectToken: "t"}
	for _, tc := range []struct {
		cn             string
		name           cluster.NodeName
		acts, internal bool
	}{
		{clientPrefix + "a", "a", true, true},
		{"operator", "operator-alice", true, false},
		{"read-only", "read-only-bob", false, false},
	} {
		p := pool(t, ca.client(tc.cn))
		_, err := p.Hello(short(t), address)
		_, err2 := p.Observe(short(t), b, "main")
		s, err3 := p.Standing(short(t), b, "main")
		if err := errors.Join(err, err2, err3); err != nil || s.Term != 7 {
			t.Errorf("%s may not look: %v", tc.cn, err)
		}
		err = p.Execute(short(t), b, "main", plan.Order{Operation: stop, Term: 1, Holder: tc.name})
		_, err2 = p.Lease(short(t), b, lease.Request{Cluster: "main", Holder: tc.name})
		for _, err := range []error{err, err2} {
			if !tc.acts {
				wantKind(t, err, rpc.Refused, "does not permit")
			} else if err != nil {
				t.Errorf("%s may not act: %v", tc.cn, err)
			}
		}
		conn, err := p.Conn("b", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Invoke(short(t), "/other/Do", &emptypb.Empty{}, &emptypb.Empty{}); (err == nil) != tc.internal {
			t.Errorf("%s calls another service: %v", tc.cn, err)
		}
	}
	if n := len(h.ran); n != 2 {
		t.Errorf("%d orders were carried out", n)
	}
}

func TestCertificatesDecideWhoGetsIn(t *testing.T) {
	ours, theirs, h := newCA(t), newCA(t), &handler{}
	address := listen(t, ours.server("b"), h)
	foreign := theirs.client(clientPrefix + "a")
	trusting := foreign // presents the wrong certificate, believes the right CA
	trusting.ClientTLS = func(n cluster.NodeName) *tls.Config {
		c := foreign.ClientTLS(n)
		c.RootCAs = ours.pool
		return c
	}
	bare := trusting
	bare.ClientTLS = func(n cluster.NodeName) *tls.Config {
		c := trusting.ClientTLS(n)
		c.Certificates = nil
		return c
	}
	for name, c := range map[string]struct {
		o    rpc.PoolOptions
		node cluster.NodeName
		kind rpc.Kind
	}{
		"client of another CA":            {trusting, "b", rpc.Unreachable},
		"client without certificate":      {bare, "b", rpc.Unreachable},
		"server of another CA":            {foreign, "b", rpc.Unreachable},
		"server of another CA, any name":  {foreign, "", rpc.Unreachable},
		"server is another node":          {ours.client(clientPrefix + "a"), "c", rpc.Unreachable},
		"certificate that names no node":  {ours.client("etcd-manager-a"), "b", rpc.Refused},
		"no TLS at all":                   {rpc.PoolOptions{Self: "a"}, "b", rpc.Unreachable},
		"certificate of the right server": {ours.client(clientPrefix + "a"), "b", ""},
		"server whose name is not known":  {ours.client(clientPrefix + "a"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pool(t, c.o).Observe(short(t), rpc.Node{Name: c.node, Address: address}, "main")
			if rpc.KindOf(err) != c.kind {
				t.Errorf("error %v is of kind %q, want %q", err, rpc.KindOf(err), c.kind)
			}
		})
	}
}

func TestServerNeedsClientCertificates(t *testing.T) {
	conf := newCA(t).server("b")
	if _, err := rpc.NewServer(rpc.ServerOptions{TLS: conf}); err == nil {
		t.Error("a server with TLS that cannot identify callers")
	}
	conf.ClientAuth = tls.VerifyClientCertIfGiven
	if _, err := rpc.NewServer(rpc.ServerOptions{TLS: conf, Identify: identify}); err == nil {
		t.Error("a server with TLS that lets callers in without a certificate")
	}
}

func TestHelloDistrustsANameThatIsNotInTheCertificate(t *testing.T) {
	ca := newCA(t)
	address := listen(t, ca.server("x"), &handler{}) // says that it is b
	_, err := pool(t, ca.client(clientPrefix+"a")).Hello(short(t), address)
	wantKind(t, err, rpc.Refused, "its certificate is of x")
}

func TestWithoutTLSTheCallerSaysItsName(t *testing.T) {
	h := &handler{}
	b := rpc.Node{Name: "b", Address: listen(t, nil, h)}
	p := pool(t, rpc.PoolOptions{Self: "a"})
	if _, err := p.Lease(short(t), b, lease.Request{Cluster: "main", Holder: "a"}); err != nil {
		t.Fatal(err)
	}
	if from := h.last(t); from != (rpc.Caller{Name: "a", Role: rpc.RoleNode}) {
		t.Errorf("the caller is %+v", from)
	}
	_, err := p.Lease(short(t), b, lease.Request{Cluster: "main", Holder: "c"})
	wantKind(t, err, rpc.Refused, "a cannot act as c")
	_, err = pool(t, rpc.PoolOptions{}).Lease(short(t), b, lease.Request{Cluster: "main"})
	wantKind(t, err, rpc.Refused, "an unknown caller cannot act")
	if hello, err := p.Hello(short(t), b.Address); err != nil || hello.Name != "b" {
		t.Errorf("hello: %+v, %v", hello, err)
	}
}

func TestErrorsArriveAsTheyWereMade(t *testing.T) {
	h := &handler{}
	b := rpc.Node{Name: "b", Address: listen(t, nil, h)}
	p := pool(t, rpc.PoolOptions{Self: "a"})
	for _, c := range []struct {
		err  error
		kind rpc.Kind
		hint string
	}{
		{&rpc.Error{Kind: rpc.Held, Text: "paused", Hint: "etcd-manager-ctl resume"}, rpc.Held, "etcd-manager-ctl resume"},
		{fmt.Errorf("stop: %w", &plan.StaleError{Want: "3 voters", Got: "2"}), rpc.Stale, ""},
		{fmt.Errorf("act: %w", &lease.StaleError{Want: 3, Seen: 4}), rpc.Stale, ""},
		{&plan.UnsafeError{Invariant: "quorum", Text: "no"}, rpc.Refused, ""},
		{damaged{}, rpc.Corrupt, "restore it"},
		{fmt.Errorf("ask: %w", context.DeadlineExceeded), rpc.Unreachable, ""},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, rpc.Unreachable, ""},
		{&rpc.Error{Kind: rpc.Invalid, Text: "bad"}, rpc.Invalid, ""},
		{&rpc.Error{Kind: rpc.Refused, Text: "no"}, rpc.Refused, ""},
		{errors.New("boom"), rpc.Internal, ""},
	} {
		h.err = c.err
		_, err := p.Observe(short(t), b, "main")
		var got *rpc.Error
		if !errors.As(err, &got) || got.Kind != c.kind || got.Text != c.err.Error() || got.Hint != c.hint ||
			rpc.HintOf(err) != c.hint {
			t.Errorf("%v arrived as %+v", c.err, got)
		}
	}
	if rpc.KindOf(nil) != "" || rpc.HintOf(nil) != "" {
		t.Error("nil has a kind or a hint")
	}
}

type damaged struct{}

func (damaged) Error() string     { return "bad magic" }
func (damaged) ErrorKind() string { return "corrupt" }
func (damaged) Hint() string      { return "restore it" }

// A node of an older version lacks a call, and understands some orders otherwise.
func TestAnotherVersionIsReportedFromAFailure(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	old := grpc.NewServer()
	go func() { _ = old.Serve(l) }()
	t.Cleanup(old.Stop)
	p := pool(t, rpc.PoolOptions{Self: "a"})
	_, err = p.Standing(short(t), rpc.Node{Name: "b", Address: l.Addr().String()}, "main")
	wantKind(t, err, rpc.Invalid, "runs an older version")
	if !errors.Is(err, rpc.ErrUnimplemented) {
		t.Errorf("it is not distinguished from other errors: %v", err)
	}
	err = send(t, p, rpc.Node{Name: "b", Address: listen(t, nil, &handler{})}, &nodepb.ExecuteRequest{
		Cluster: "main", Argv: []string{"data", "discard", "--node=b", "--name=x"}, Term: 1, Holder: "a",
	})
	wantKind(t, err, rpc.Invalid, "order not understood by node b")
	if !strings.Contains(rpc.HintOf(err), "upgrade the older ones") {
		t.Errorf("the hint is %q", rpc.HintOf(err))
	}
}

func TestAPanicIsAnError(t *testing.T) {
	h := &handler{panic: "index out of range"}
	s, err := rpc.NewServer(rpc.ServerOptions{Name: "b", Cluster: "main", Handler: h,
		Panicked: func(method string, v any, stack []byte) {
			if method != "/etcdadm.v1.Node/Observe" || v != "index out of range" || len(stack) == 0 {
				t.Errorf("panic of %s: %v", method, v)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(l) })
	defer wg.Wait()
	defer s.Stop(short(t))
	p := pool(t, rpc.PoolOptions{Self: "a"})
	for range 2 {
		_, err = p.Observe(short(t), rpc.Node{Name: "b", Address: l.Addr().String()}, "main")
		wantKind(t, err, rpc.Internal, "index out of range")
	}
	_ = p.Close()
}

func TestCallsEndWithTheirDeadline(t *testing.T) {
	h := &handler{hold: make(chan struct{})}
	b := rpc.Node{Name: "b", Address: listen(t, nil, h)}
	defer close(h.hold)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := pool(t, rpc.PoolOptions{Self: "a"}).Observe(ctx, b, "main")
	wantKind(t, err, rpc.Unreachable, "b: ")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is not the context's error", err)
	}
}

func TestStopCutsOffWhatDoesNotEnd(t *testing.T) {
	h := &handler{block: true}
	s, err := rpc.NewServer(rpc.ServerOptions{Name: "b", Cluster: "main", Handler: h})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served, called := make(chan error, 1), make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	p := pool(t, rpc.PoolOptions{Self: "a"})
	if _, err := p.Hello(short(t), l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := p.Observe(short(t), rpc.Node{Address: l.Addr().String()}, "main")
		called <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s.Stop(ctx)
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	wantKind(t, <-called, rpc.Unreachable, "")
}

func TestALostConnectionIsMadeAgain(t *testing.T) {
	ca := newCA(t)
	serve := func(address string) (*rpc.Server, string) {
		s, err := rpc.NewServer(rpc.ServerOptions{
			Name: "b", Cluster: "main", Handler: &handler{}, TLS: ca.server("b"), Identify: identify,
		})
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Serve(l) }()
		return s, l.Addr().String()
	}
	p := pool(t, ca.client(clientPrefix+"a"))
	s, address := serve("127.0.0.1:0")
	b := rpc.Node{Name: "b", Address: address}
	if _, err := p.Observe(short(t), b, "main"); err != nil {
		t.Fatal(err)
	}
	s.Stop(short(t))
	_, err := p.Observe(short(t), b, "main")
	wantKind(t, err, rpc.Unreachable, "b: ")
	s, _ = serve(address)
	defer s.Stop(short(t))
	testwait.For(t, "a connection", func(ctx context.Context) error {
		_, err := p.Observe(ctx, b, "main")
		return err
	})
}

func TestThePoolKeepsOneConnection(t *testing.T) {
	p := rpc.NewPool(rpc.PoolOptions{Self: "a"})
	one, err := p.Conn("b", "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := p.Conn("b", "127.0.0.1:1"); again != one {
		t.Error("the second connection is another one")
	}
	if other, _ := p.Conn("c", "127.0.0.1:1"); other == one {
		t.Error("two nodes have one connection")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Conn("b", "127.0.0.1:1"); err == nil {
		t.Error("a closed pool connects")
	}
	_, err = p.Hello(short(t), "127.0.0.1:1")
	wantKind(t, err, rpc.Internal, "closed")
}

// Messages of another service on the same port keep their encoding.
func TestProtoServicesLiveBesideOurs(t *testing.T) {
	ca := newCA(t)
	desc := &grpc.ServiceDesc{
		ServiceName: "privateapi.ClusterService", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Ping",
			Handler: func(_ any, ctx context.Context, read func(any) error, through grpc.UnaryServerInterceptor) (any, error) {
				req := &emptypb.Empty{}
				if err := read(req); err != nil {
					return nil, err
				}
				return through(ctx, req, &grpc.UnaryServerInfo{FullMethod: "/privateapi.ClusterService/Ping"},
					func(ctx context.Context, _ any) (any, error) {
						from, _ := rpc.CallerFrom(ctx)
						return wrapperspb.String(from.String()), nil
					})
			}}},
	}
	address := listen(t, ca.server("b"), &handler{}, func(s *rpc.Server) { s.RegisterService(desc, nil) })
	conn, err := pool(t, ca.client(clientPrefix+"a")).Conn("b", address)
	if err != nil {
		t.Fatal(err)
	}
	got := &wrapperspb.StringValue{}
	if err := conn.Invoke(short(t), "/privateapi.ClusterService/Ping", &emptypb.Empty{}, got); err != nil ||
		got.Value != "a" {
		t.Errorf("ping: %v, %v", got, err)
	}
}

func TestMessagesHaveASizeLimit(t *testing.T) {
	h := &handler{}
	b := rpc.Node{Name: "b", Address: listen(t, nil, h)}
	err := send(t, pool(t, rpc.PoolOptions{Self: "a"}), b, &nodepb.ExecuteRequest{
		Cluster: "main", Holder: "a", Argv: []string{"member", "remove", strings.Repeat("x", 5<<20)},
	})
	wantKind(t, err, rpc.Invalid, "larger than max")
}
