package main

import (
	"strings"
	"testing"
)

// The license of each module that is linked into a program is there, and no text twice.
func TestNotices(t *testing.T) {
	got, err := tested.notices(t.Context(), "amd64")
	if err != nil {
		t.Fatal(err)
	}
	text := string(got)
	for _, want := range []string{
		"\nGo and its standard library\n", "\ngo.etcd.io/etcd/client/v3 v3.", "\ngithub.com/hashicorp/memberlist v",
		"Mozilla Public License", "\ngoogle.golang.org/grpc v", "Copyright 2014 gRPC authors.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the notices lack %q", want)
		}
	}
	if strings.Contains(text, "github.com/etcdadm/etcdadm/") || strings.Contains(text, "/pkg/mod/") {
		t.Error("the notices name our own modules, or directories of this machine")
	}
	again, err := tested.notices(t.Context(), "amd64")
	if err != nil || string(again) != text {
		t.Errorf("the notices are not the same again: %v", err)
	}
}
