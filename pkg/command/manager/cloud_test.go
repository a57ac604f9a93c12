package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/coordination/discovery"
	"github.com/etcdadm/etcdadm/pkg/daemon"
	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// elsewhere is a cloud whose only volume is attached to another machine.
type elsewhere struct{ asked chan struct{} }

func (c elsewhere) Find(context.Context) ([]volumes.Volume, error) {
	select {
	case c.asked <- struct{}{}:
	default:
	}
	return []volumes.Volume{{ID: "vol-1", Node: "etcd-a", Machine: "i-old"}}, nil
}

func (elsewhere) Attach(_ context.Context, v volumes.Volume) (volumes.Volume, error) {
	return v, errors.New("it is not free")
}

func (elsewhere) Address(context.Context) (string, error) { return "127.0.0.1", nil }

func (elsewhere) Nodes(context.Context) ([]volumes.Node, error) {
	return []volumes.Node{{Name: "etcd-b", Addresses: []string{"10.0.0.2", "fd00::2"}}}, nil
}

func TestWaitingForAVolumeIsReported(t *testing.T) {
	cloud := elsewhere{make(chan struct{})}
	volumes.Register("elsewhere", func(_ context.Context, o volumes.Options) (volumes.Provider, error) {
		if o.ClusterName != "etcd" || !reflect.DeepEqual(o.Tags, []string{"a=b", "c"}) || o.NameTag != "c" {
			t.Errorf("options %+v", o)
		}
		return cloud, nil
	})
	port := testport.Free(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := Command(func(context.Context, daemon.Config, *slog.Logger) error {
		t.Error("the daemon runs without its volume")
		return nil
	})
	cmd.SetErr(io.Discard)
	cmd.SetArgs([]string{
		"--cluster-name=etcd", "--backup-store=file:///tmp/x", "--volume-provider=elsewhere", "--volume-tag=a=b",
		"--volume-tag=c", "--volume-name-tag=c", fmt.Sprintf("--etcd-manager-metrics-port=%d", port),
	})
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	<-cloud.asked
	<-cloud.asked // the second question comes after the first one was reported
	url := "http://" + net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	for page, want := range map[string]string{
		"/readyz": "vol-1 is attached to i-old", "/metrics": "etcd_manager_volume_waiting 1", "/healthz": "ok",
	} {
		r, err := http.Get(url + page)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if !strings.Contains(string(text), want) || (r.StatusCode == http.StatusOK) == (page == "/readyz") {
			t.Errorf("%s: %d %s", page, r.StatusCode, text)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("ended while it waited: %v", err)
	}
	if l, err := net.Listen("tcp", strings.TrimPrefix(url, "http://")); err != nil {
		t.Errorf("the port is not free for the daemon: %v", err)
	} else {
		l.Close()
	}
}

// unmountable is a cloud that attaches a volume whose device nobody knows.
type unmountable struct{ elsewhere }

func (unmountable) Find(context.Context) ([]volumes.Volume, error) {
	return []volumes.Volume{{ID: "vol-1", Node: "etcd-a", Machine: "i-self", Here: true}}, nil
}

func (unmountable) Attach(_ context.Context, v volumes.Volume) (volumes.Volume, error) { return v, nil }

// A container that exits over and over again stops a rolling update; one that waits, and
// says why, does not.
func TestWhatKeepsAVolumeAwayIsReportedAndWaitedFor(t *testing.T) {
	volumes.Register("unmountable", func(context.Context, volumes.Options) (volumes.Provider, error) {
		return unmountable{}, nil
	})
	for want, args := range map[string][]string{
		"/rootfs/mnt/disks: no such file": {"--volume-provider=external", "--volume-tag=x--", "--containerized"},
		"volume vol-1: its device is":     {"--volume-provider=unmountable"},
	} {
		port := testport.Free(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cmd := Command(func(context.Context, daemon.Config, *slog.Logger) error {
			t.Error("the daemon runs without its volume")
			return nil
		})
		cmd.SetErr(io.Discard)
		cmd.SetArgs(append(args, "--cluster-name=etcd", "--backup-store=file:///tmp/x",
			fmt.Sprintf("--etcd-manager-metrics-port=%d", port)))
		done := make(chan error, 1)
		go func() { done <- cmd.ExecuteContext(ctx) }()
		testwait.Until(t, want, func() bool {
			select {
			case err := <-done:
				t.Fatalf("%q: it ended: %v", args, err)
			default:
			}
			r, err := http.Get("http://" + net.JoinHostPort("127.0.0.1", fmt.Sprint(port)) + "/readyz")
			if err != nil {
				return false
			}
			defer r.Body.Close()
			text, _ := io.ReadAll(r.Body)
			return r.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(text), want)
		})
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%q: ended while it waited: %v", args, err)
		}
	}
}

// A container does not see what is mounted on its machine later: it ends, and a new one does.
func TestAContainerDoesNotWaitForAMountForEver(t *testing.T) {
	ignored := func(string) {}
	root := t.TempDir()
	_, err := findExternal(t.Context(), root, "x--", time.Millisecond, slog.New(slog.DiscardHandler), ignored)
	if err == nil || !strings.Contains(err.Error(), "no such file") || !strings.Contains(err.Error(), "a new container") {
		t.Errorf("it ends with %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = findExternal(ctx, root, "x--", 0, slog.New(slog.DiscardHandler), ignored)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ended by hand, it ends with %v", err)
	}
}

func TestNodesOfTheCloudAreSeeds(t *testing.T) {
	got, err := lookupNodes(elsewhere{}, 3996)(t.Context())
	want := []discovery.Seed{
		{Name: "etcd-b", Address: "10.0.0.2:3996"}, {Name: "etcd-b", Address: "[fd00::2]:3996"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestFlagsOfACloudAreCheckedBeforeItIsAsked(t *testing.T) {
	volumes.Register("unasked", func(context.Context, volumes.Options) (volumes.Provider, error) {
		t.Error("the cloud is asked")
		return nil, errors.New("asked")
	})
	usage(t, "--grpc-port", "--volume-provider=unasked", "--grpc-port=99999")
}
