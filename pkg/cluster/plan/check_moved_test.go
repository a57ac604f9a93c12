package plan_test

import (
	"strings"
	"testing"
)

func TestCheckOfAMemberThatMoves(t *testing.T) {
	const update = "member update --id=1 --peer-url=https://a.new:2380 --expect-peer-url=https://a:2380"
	const switchOn = "member update --id=1 --peer-url=https://a:2380 --expect-peer-url=http://a:2380"
	const restart = "member start --node=a --token=t1 --mode=restart --version=3.6.16"
	for _, tt := range []struct{ name, world, line, want string }{
		{"it may", "cluster a b c", update, ""},
		{"alone", "cluster a", update, ""},
		{"done already", "cluster a b c\nmember a peer=https://a.new:2380\nmember b down=1m", update, ""},
		{"no leader", "cluster a b c\nleader none", update, "no leader"},
		{"a voter is away", "cluster a b c\nmember c down=10s", update, "c is not healthy"},
		{"it is elsewhere by now", "cluster a b c\nmember a peer=https://a.other:2380", update, "https://a.other:2380"},
		{"nobody has that id", "cluster a b c", strings.Replace(update, "--id=1", "--id=9", 1), "member 9"},
		{"without TLS", "cluster a b c", strings.Replace(update, "https://a.new", "http://a.new", 1), "give up TLS"},
		{"TLS, and all have keys", "cluster a b c\nmember a peer=http://a:2380", switchOn, ""},
		{"TLS without keys", "cluster a b c\nmember a peer=http://a:2380\nnode c keyless", switchOn, "c has no keys"},
		{"TLS has been there", "cluster a b c\nnode c keyless", update, ""},
		{"the place of another", "cluster a b c", strings.Replace(update, "a.new", "b", 1), "etcd looks for b"},
		{"another waits", "cluster a b c\nnode b serving=http://b:2379", update, "b has yet to be restarted"},
		{"the next start of it", "cluster a b c\nnode a serving=http://a:2379", restart, ""},
		{"the next start beside one that is away", "cluster a b c\nnode a serving=http://a:2379\nmember c down=10s", restart,
			"c is not healthy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := checkLine(t, tt.world, tt.line)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
