package etcdclient

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// messages is a stream that has its messages cut into buffers of cut bytes.
type messages struct {
	grpc.ClientStream
	ctx  context.Context
	all  [][]byte
	cut  int
	last error
}

func (m *messages) RecvMsg(to any) error {
	if len(m.all) == 0 && m.last == nil {
		<-m.ctx.Done()
		return m.ctx.Err()
	}
	if len(m.all) == 0 {
		return m.last
	}
	var b mem.BufferSlice
	for rest := m.all[0]; len(rest) > 0; {
		n := min(m.cut, len(rest))
		b, rest = append(b, mem.SliceBuffer(rest[:n])), rest[n:]
	}
	m.all = m.all[1:]
	return rawCodec{}.Unmarshal(b, to)
}

func reading(t *testing.T, m *messages) *snapshot {
	s := &snapshot{ctx: t.Context(), stream: m}
	s.streaming, s.cancel = context.WithCancel(s.ctx)
	m.ctx = s.streaming
	t.Cleanup(s.cancel)
	return s
}

func TestASnapshotIsTheBlobsOfItsMessages(t *testing.T) {
	var all [][]byte
	for _, r := range []*etcdserverpb.SnapshotResponse{
		{Header: &etcdserverpb.ResponseHeader{ClusterId: 1 << 60, Revision: 7}, RemainingBytes: 1 << 40, Blob: []byte("the "),
			Version: "3.6.0"},
		{},
		{RemainingBytes: 1, Blob: []byte(strings.Repeat("x", 1000))},
		{Blob: []byte(" end")},
	} {
		b, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	// Fields of kinds that there are none of today.
	all = append(all, []byte("\x0d1234\x0912345678\x28\x80\x01\x1a\x01!"))
	for _, cut := range []int{1, 7, 1 << 20} {
		got, err := io.ReadAll(reading(t, &messages{all: all, cut: cut, last: io.EOF}))
		if want := "the " + strings.Repeat("x", 1000) + " end!"; err != nil || string(got) != want {
			t.Errorf("in buffers of %d: %q, %v", cut, got, err)
		}
	}
}

func TestAGarbledMessageIsAnError(t *testing.T) {
	for name, m := range map[string]string{
		"a blob that is longer than the message": "\x1a\x05abc",
		"an enormous blob":                       "\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01abc",
		"a tag without an end":                   "\x80",
		"a length without an end":                "\x1a\x80",
		"a number without an end":                "\x10\x80",
		"a fixed number that is cut off":         "\x0d12",
		"a group":                                "\x0b",
	} {
		got, err := io.ReadAll(reading(t, &messages{all: [][]byte{[]byte(m)}, cut: 2, last: io.EOF}))
		if err == nil || len(got) > 0 {
			t.Errorf("%s: read %q, %v", name, got, err)
		}
	}
}

func TestClosingASnapshotEndsARead(t *testing.T) {
	s := reading(t, &messages{})
	done := make(chan error)
	go func() {
		_, err := s.Read(make([]byte, 1))
		done <- err
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it goes on")
	}
	s = reading(t, &messages{all: [][]byte{[]byte("\x1a\x03abc")}, cut: 9, last: io.EOF})
	if _, err := s.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("after Close it ended with %v", err)
	}
}
