package gossip

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/internal/nodepb"
)

// message is one of memberlist's: its kind, and a map in MessagePack.
func message(kind byte, fields ...any) []byte {
	b := []byte{kind, 0x80 | byte(len(fields)/2)}
	for _, f := range fields {
		switch f := f.(type) {
		case string:
			b = append(append(b, 0xa0|byte(len(f))), f...)
		case []byte:
			b = append(append(b, 0xc4, byte(len(f))), f...)
		case int:
			b = append(b, 0xcd, byte(f>>8), byte(f))
		case bool:
			b = append(b, map[bool]byte{false: 0xc2, true: 0xc3}[f])
		}
	}
	return b
}

// compound is several messages in one packet.
func compound(parts ...[]byte) []byte {
	b := []byte{7, byte(len(parts))}
	for _, p := range parts {
		b = binary.BigEndian.AppendUint16(b, uint16(len(p)))
	}
	return append(b, bytes.Join(parts, nil)...)
}

// genuine are messages as memberlist sends them, of each kind, from m.
func genuine() [][]byte {
	at := []byte{127, 0, 0, 1}
	return [][]byte{
		message(0, "SeqNo", 1, "Node", "a", "SourceAddr", at, "SourcePort", 1, "SourceNode", "m"),
		message(1, "SeqNo", 1, "Target", at, "Port", 1, "Node", "b", "Nack", true, "SourceAddr", at, "SourcePort", 1),
		message(2, "SeqNo", 1, "Payload", []byte("x")),
		message(3, "Incarnation", 1, "Node", "a", "From", "m"),
		message(4, "Incarnation", 1, "Node", "z", "Addr", at, "Port", 9, "Meta", []byte("m"), "Vsn",
			[]byte{1, 5, 5, 0, 0, 0}),
		message(5, "Incarnation", 1, "Node", "z", "From", "m"),
		message(6, "Nodes", 1, "UserStateLen", 0, "Join", true),
		message(8), message(9, "Algo", 0, "Buf", []byte{1, 2, 3, 4, 5, 6, 7}),
		message(11, "SeqNo", 1), message(13, "Error", "no"),
	}
}

// mutate changes a message in one of some ways.
func mutate(r *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	switch r.IntN(5) {
	case 0:
		for range 1 + r.IntN(4) {
			b[r.IntN(len(b))] = byte(r.IntN(256))
		}
	case 1:
		b = b[:r.IntN(len(b)+1)]
	case 2:
		b = make([]byte, 1+r.IntN(300))
		for i := range b {
			b[i] = byte(r.IntN(256))
		}
		b[0] = byte(r.IntN(16))
	case 3:
		other := bytes.Clone(b)
		other[r.IntN(len(other))] ^= 1 << r.IntN(8)
		b = compound(b, other, other)
	}
	return b
}

// TestMutatedMessages: one who has a certificate sends packets and opens connections with
// what is not quite memberlist's protocol. The nodes go on, and go on to see each other.
func TestMutatedMessages(t *testing.T) {
	t.Parallel()
	nodes := peerGroup(t, "a", "b")
	m := start(t, "m", setup{})
	cc, err := m.dial(nodes[0].address, "m")
	if err != nil {
		t.Fatal(err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), NameKey, "m")
	packets, err := nodepb.NewGossipClient(cc).Packets(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 5000 {
		b := mutate(r, genuine()[r.IntN(len(genuine()))])
		if i%50 > 0 {
			if err := packets.Send(wrapperspb.Bytes(b)); err != nil {
				t.Fatalf("packet %d is not taken: %v", i, err)
			}
			continue
		}
		s, err := nodepb.NewGossipClient(cc).Stream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Send(wrapperspb.Bytes(b)) // it may have been ended
		_ = s.CloseSend()
	}
	sees := func(n *node, name cluster.NodeName) bool {
		return slices.ContainsFunc(n.Peers(), func(p Peer) bool { return p.Name == name && p.Alive && p.Proved })
	}
	eventually(t, func() string {
		if !sees(nodes[0], "b") || !sees(nodes[1], "a") {
			return "they do not see each other: " + nodes[0].sees() + "; " + nodes[1].sees()
		}
		return ""
	})
	// A node that comes now is seen, too.
	c := start(t, "c", setup{})
	join(t, c, nodes[0].address)
	eventually(t, func() string {
		if !sees(nodes[0], "c") || !sees(c, "a") {
			return "a does not see c"
		}
		return ""
	})
}

// With a node of another protocol memberlist lets nobody join any more, so that one made-up
// name would keep new nodes out for as long as it is reported.
func TestNodesOfAnotherProtocolAreIgnored(t *testing.T) {
	t.Parallel()
	nodes := peerGroup(t, "a", "b")
	m := start(t, "m", setup{})
	for i, versions := range [][]byte{{1, 5, 2, 0, 0, 0}, {1, 4, 5, 0, 0, 0}, {6, 9, 6, 0, 0, 0}, {1, 5, 5, 1, 1, 1}} {
		alive := message(4, "Incarnation", 9, "Node", fmt.Sprintf("z%d", i), "Addr", []byte{127, 0, 0, 1}, "Port", 9,
			"Meta", []byte("m"), "Vsn", versions)
		if _, err := m.transport.WriteTo(alive, nodes[0].transport.at.String()); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() string {
		if !nodes[0].said("'z3': it is announced with another protocol") {
			return "a has not heard of z3"
		}
		return ""
	})
	c := start(t, "c", setup{})
	join(t, c, nodes[0].address)
	await(t, "a b c", nodes[0], c)
}
