package etcdconf

import (
	"slices"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	tests := []struct {
		in, address, name string
		want              string
		fails             string
	}{
		{in: "https://__address__:2380", address: "10.0.0.1", want: "https://10.0.0.1:2380"},
		{in: "https://__address__:2380", address: "fd00::1", want: "https://[fd00::1]:2380"},
		{in: "https://__address__:2380", address: "[fd00::1]", want: "https://[fd00::1]:2380"},
		{in: "https://[__address__]:2380", address: "fd00::1", want: "https://[fd00::1]:2380"},
		{in: "https://[__address__]:2380", address: "10.0.0.1", want: "https://10.0.0.1:2380"},
		{in: "https://__name__:4001,https://__name__.x:4002", name: "etcd-a",
			want: "https://etcd-a:4001,https://etcd-a.x:4002"},
		{in: "https://__name__:4001", name: "a__b__c", want: "https://a__b__c:4001"},
		{in: "https://api.internal:4003", address: "not used", want: "https://api.internal:4003"},
		{in: "", want: ""},
		{in: " https://a:1 ,", want: "https://a:1"},
		{in: "https://__addres__:2380", address: "10.0.0.1", fails: "unknown placeholder __addres__"},
		{in: "https://__address__:2380", address: "", fails: "not an IP address"},
		{in: "https://__address__:2380", address: "host", fails: "not an IP address"},
		{in: "https://__address__:2380", address: "fe80::1%eth0", fails: "one interface only"},
		{in: "https://__name__", name: "a", fails: "not of the form https://host:port"},
		{in: "https://__name__:4001", name: "", fails: "not of the form https://host:port"},
		{in: "https://fd00::1:2380", fails: "not of the form"},
		{in: "http://%zz:1", fails: "not of the form"},
	}
	for _, tt := range tests {
		got, err := Expand(strings.Split(tt.in, ","), tt.address, tt.name)
		switch {
		case tt.fails != "":
			if err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%q with %q: error %v, want one with %q", tt.in, tt.address, err, tt.fails)
			}
		case err != nil:
			t.Errorf("%q with %q: %v", tt.in, tt.address, err)
		case join(got) != tt.want:
			t.Errorf("%q with %q: got %q, want %q", tt.in, tt.address, join(got), tt.want)
		}
	}
}

func TestInsecure(t *testing.T) {
	in := []string{"https://a:1", "http://b:2", "https://https:3"}
	if got, want := Insecure(in), []string{"http://a:1", "http://b:2", "http://https:3"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if in[0] != "https://a:1" {
		t.Error("Insecure changed its input")
	}
}

func TestBind(t *testing.T) {
	tests := []struct{ in, address, want string }{
		{"https://a:2380", "0.0.0.0", "https://0.0.0.0:2380"},
		{"https://[fd00::1]:2380", "::", "https://[::]:2380"},
		{"https://a:2380", "[::1]", "https://[::1]:2380"},
		{"http://a:1", "localhost", "http://localhost:1"},
		{"https://a:4001,https://b:4001,https://b:4002", "10.0.0.1", "https://10.0.0.1:4001,https://10.0.0.1:4002"},
	}
	for _, tt := range tests {
		got, err := bind(strings.Split(tt.in, ","), tt.address)
		if err != nil || join(got) != tt.want {
			t.Errorf("%s on %s: got %s, %v, want %s", tt.in, tt.address, join(got), err, tt.want)
		}
	}
}
