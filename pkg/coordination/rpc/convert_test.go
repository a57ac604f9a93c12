package rpc

import (
	"reflect"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// filled returns a value of a struct with no field left empty, so that a field that is forgotten shows.
func filled[T any](t *testing.T) T {
	t.Helper()
	var v T
	fill(t, reflect.ValueOf(&v).Elem())
	return v
}

func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Uint64:
		v.SetUint(1<<63 + 5)
	case reflect.Int64:
		v.SetInt(int64(3 * time.Second / 2))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	default:
		t.Fatalf("%s: no value is known", v.Type())
	}
}

func TestNothingIsLostInMessages(t *testing.T) {
	request := filled[lease.Request](t)
	request.Entitled = false // never read from a message
	if got := leaseRequest(leaseRequestMessage(request)); !reflect.DeepEqual(got, request) {
		t.Errorf("lease request: %+v, want %+v", got, request)
	}
	reply := filled[lease.Reply](t)
	if got := leaseReply(leaseResponse(reply)); !reflect.DeepEqual(got, reply) {
		t.Errorf("lease reply: %+v, want %+v", got, reply)
	}
	stands := filled[lease.Standing](t)
	if got := standing(standingResponse(stands)); !reflect.DeepEqual(got, stands) {
		t.Errorf("standing: %+v, want %+v", got, stands)
	}
	if got := leaseVoters(nil); !reflect.DeepEqual(got, cluster.LeaseVoters{}) {
		t.Errorf("no lease voters: %+v", got)
	}
	if got := leaseRequest(nil); !reflect.DeepEqual(got, lease.Request{}) {
		t.Errorf("no request: %+v", got)
	}
}
