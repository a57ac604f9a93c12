package nodestate

import (
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// schema is the existing etcd-manager's definition of the messages, for the
// protobuf library, so that it can check what is written here by hand.
func schema(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	type f = descriptorpb.FieldDescriptorProto
	one, many := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL, descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	text, flag := descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_BOOL
	number, message := descriptorpb.FieldDescriptorProto_TYPE_INT32, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	field := func(n int32, name string, typ descriptorpb.FieldDescriptorProto_Type,
		label descriptorpb.FieldDescriptorProto_Label, of string) *f {
		d := &f{Name: proto.String(name), Number: proto.Int32(n), Type: typ.Enum(), Label: label.Enum()}
		if of != "" {
			d.TypeName = proto.String(".etcd." + of)
		}
		return d
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("etcd.proto"), Package: proto.String("etcd"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("EtcdState"), Field: []*f{
				field(1, "new_cluster", flag, one, ""), field(2, "cluster", message, one, "EtcdCluster"),
				field(3, "etcd_version", text, one, ""), field(4, "quarantined", flag, one, ""),
			}},
			{Name: proto.String("EtcdCluster"), Field: []*f{
				field(1, "desired_cluster_size", number, one, ""), field(5, "cluster_token", text, one, ""),
				field(7, "nodes", message, many, "EtcdNode"),
			}},
			{Name: proto.String("EtcdNode"), Field: []*f{
				field(1, "name", text, one, ""), field(2, "peer_urls", text, many, ""), field(3, "client_urls", text, many, ""),
				field(4, "quarantined_client_urls", text, many, ""), field(5, "tls_enabled", flag, one, ""),
			}},
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().ByName("EtcdState")
}

// states are messages in protobuf's JSON form and in ours.
var states = []struct {
	json string
	want etcdState
}{
	{`{}`, etcdState{}},
	{`{"newCluster":true,"etcdVersion":"3.6.16","quarantined":true,
	   "cluster":{"clusterToken":"-6pEK7bJ4mOAVp_wqWxs1A","nodes":[
	     {"name":"a","peerUrls":["https://10.0.0.1:2380"],"clientUrls":["https://10.0.0.1:4001","https://a.x:4001"],"quarantinedClientUrls":["https://10.0.0.1:3994"],"tlsEnabled":true},
	     {"name":"b","peerUrls":["http://10.0.0.2:2380"]}]}}`,
		etcdState{newCluster: true, version: "3.6.16", quarantined: true,
			cluster: &etcdCluster{token: "-6pEK7bJ4mOAVp_wqWxs1A", nodes: []etcdNode{
				{Name: "a", PeerURLs: []string{"https://10.0.0.1:2380"}, ClientURLs: []string{
					"https://10.0.0.1:4001", "https://a.x:4001",
				}, QuarantineURLs: []string{"https://10.0.0.1:3994"}, TLS: true},
				{Name: "b", PeerURLs: []string{"http://10.0.0.2:2380"}},
			}}}},
	{`{"cluster":{"clusterToken":"etcd-cluster-token-etcd","nodes":[{"name":"a"}]},"etcdVersion":"3.3.27"}`,
		etcdState{version: "3.3.27", cluster: &etcdCluster{
			token: "etcd-cluster-token-etcd", nodes: []etcdNode{{Name: "a"}},
		}}},
	{`{"cluster":{}}`, etcdState{cluster: &etcdCluster{}}},
}

func TestWireFormIsThatOfTheProtobufLibrary(t *testing.T) {
	desc := schema(t)
	for _, c := range states {
		theirs := dynamicpb.NewMessage(desc)
		if err := protojson.Unmarshal([]byte(c.json), theirs); err != nil {
			t.Fatal(err)
		}
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(theirs)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeState(b)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: decoded %+v, %v", c.json, got, err)
		}
		back := dynamicpb.NewMessage(desc)
		if err := proto.Unmarshal(c.want.encode(), back); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(theirs, back) || len(back.GetUnknown()) > 0 {
			t.Errorf("%s: the library reads ours as %v", c.json, back)
		}
	}
}

func TestDecodeSkipsUnknownFields(t *testing.T) {
	unknown := protowire.AppendTag(nil, 99, protowire.BytesType)
	unknown = protowire.AppendBytes(unknown, []byte("later"))
	unknown = protowire.AppendTag(unknown, 98, protowire.VarintType)
	unknown = protowire.AppendVarint(unknown, 7)
	unknown = protowire.AppendTag(unknown, 97, protowire.Fixed64Type)
	unknown = protowire.AppendFixed64(unknown, 7)

	node := append(etcdNode{Name: "a"}.encode(), unknown...)
	members := append(appendBytes(nil, 7, node), unknown...)
	// desired size
	members = append(members, protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 3)...)
	b := append(appendBytes(nil, 2, members), unknown...)
	got, err := decodeState(b)
	if err != nil || got.cluster == nil || len(got.cluster.nodes) != 1 || got.cluster.nodes[0].Name != "a" {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestDecodeRefusesGarbage(t *testing.T) {
	whole := states[1].want.encode()
	for name, b := range map[string][]byte{
		"text":             []byte("hello, world"),
		"JSON":             []byte(`{"etcdVersion":"3.6.16"}`),
		"zeros":            make([]byte, 340),
		"cut off":          whole[:len(whole)-20],
		"only unknown":     protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1),
		"cluster a number": protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 1),
		"flag a string":    appendBytes(nil, 4, []byte("yes")),
		"version no text":  appendBytes(nil, 3, []byte{0xff, 0xfe}),
		"node a number":    appendBytes(nil, 2, protowire.AppendVarint(protowire.AppendTag(nil, 7, protowire.VarintType), 1)),
	} {
		if got, err := decodeState(b); err == nil {
			t.Errorf("%s: decoded as %+v", name, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range states {
		f.Add(c.want.encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeState(b)
		if err != nil {
			return
		}
		again, err := decodeState(s.encode())
		if err != nil && !strings.Contains(err.Error(), "none of the fields") {
			t.Fatalf("%+v cannot be read back: %v", s, err)
		}
		if twice := again.encode(); string(twice) != string(s.encode()) {
			t.Fatalf("once %x, twice %x", s.encode(), twice)
		}
	})
}
