//go:build e2e

package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// label marks everything that the tests make in Docker with the process that
// made it.
const label = "etcdadm-e2e-systemd"

func owner() string { return label + "=" + strconv.Itoa(os.Getpid()) }

// sweep removes what tests left behind that were killed.
var sweep = sync.OnceValue(func() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute) //nolint:forbidigo // once for all tests
	defer stop()
	labelOf := func(field string) string { return fmt.Sprintf("--format={{index %s %q}}", field, label) }
	for _, kind := range []struct{ list, inspect, remove []string }{
		{[]string{"ps", "--all"}, []string{"inspect", labelOf(".Config.Labels")}, []string{"rm", "--force", "--volumes"}},
		{[]string{"network", "ls"}, []string{"network", "inspect", labelOf(".Labels")}, []string{"network", "rm"}},
		{[]string{"images"}, []string{"image", "inspect", labelOf(".Config.Labels")}, []string{"rmi", "--no-prune"}},
	} {
		ids, err := docker(ctx, append(kind.list, "--filter=label="+label, "--quiet")...)
		if err != nil {
			return err
		}
		for _, id := range strings.Fields(ids) {
			process, err := docker(ctx, append(kind.inspect, id)...)
			if err != nil {
				continue // another test's, which is just ending
			}
			pid, err := strconv.Atoi(process)
			if err != nil || syscall.Kill(pid, 0) == nil {
				continue
			}
			if _, err := docker(ctx, append(kind.remove, id)...); err != nil {
				return err
			}
		}
	}
	return nil
})

// prepare returns the image of a machine, and a network for one test.
func prepare(t testing.TB) (string, subnet) {
	t.Helper()
	if os.Getenv("ETCDADM_ETCD_DIR") == "" {
		t.Skip("ETCDADM_ETCD_DIR is not set: it lists the directories with etcd-v3.6.16 and so on; go run ./images path " +
			"prints one")
	}
	ctx := t.Context()
	image, err := equip(ctx)
	if errors.Is(err, errSetup) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	if err := sweep(); err != nil {
		t.Fatal(err)
	}
	net, err := network(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// The context of the test ends before its cleanups run.
	t.Cleanup(func() {
		docker(context.WithoutCancel(ctx), "network", "rm", net.name) //nolint:errcheck // sweep tries again
	})
	return image, net
}

// Start boots n machines, m1 and so on, in a network of their own. They end with
// the test; when it failed, their logs are shown before. Without Docker, or
// without the archives that the machines are made from, the test is skipped. Further
// options are Docker's, for each machine.
func Start(t testing.TB, n int, options ...string) []*Machine {
	t.Helper()
	image, net := prepare(t)
	ctx := t.Context()
	machines := make([]*Machine, n)
	for i := range machines {
		machines[i] = &Machine{t: t, Name: "m" + strconv.Itoa(i+1), IP: net.ip4(i + 11), IP6: net.ip6(i + 11)}
		machines[i].id = net.name + "-" + machines[i].Name
		t.Cleanup(func() {
			//nolint:errcheck // sweep tries again
			docker(context.WithoutCancel(ctx), "rm", "--force", "--volumes", machines[i].id)
		})
		if _, err := docker(ctx, create(machines[i], net, image, options...)...); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { showLogs(t, machines) })
	for _, m := range machines {
		m.powerOn()
	}
	for _, m := range machines {
		m.awaitBoot()
	}
	return machines
}

// create returns the arguments that make a machine. Its capabilities are those
// that systemd and its sandboxing need, without CAP_SYS_RESOURCE, which not
// every host can give, and without those over the kernel that all share.
func create(m *Machine, net subnet, image string, options ...string) []string {
	args := []string{
		"create", "--name=" + m.id, "--hostname=" + m.Name, "--label=" + owner(),
		"--network=" + net.name, "--network-alias=" + m.Name, "--ip=" + m.IP,
		"--cgroupns=private", "--tmpfs=/run:exec,mode=755", "--tmpfs=/tmp:exec,mode=1777", "--stop-signal=SIGRTMIN+3",
		"--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined", "--security-opt=systempaths=unconfined",
	}
	if m.IP6 != "" {
		args = append(args, "--ip6="+m.IP6)
	}
	for _, c := range []string{
		"SYS_ADMIN", "SYS_BOOT", "SYS_CHROOT", "SYS_NICE", "SYS_PTRACE", "NET_ADMIN", "NET_BROADCAST", "NET_RAW",
		"DAC_READ_SEARCH", "IPC_LOCK", "IPC_OWNER", "LEASE", "LINUX_IMMUTABLE",
	} {
		args = append(args, "--cap-add="+c)
	}
	return append(append(args, options...), image)
}

// A subnet is a network of machines. Its addresses are from the block for
// benchmarks (RFC 2544) and from the local ones of IPv6 (RFC 4193), so that they
// meet no real network. There is a default route, but no node answers behind it.
type subnet struct {
	name   string
	number int
	six    bool
}

func (s subnet) ip4(host int) string { return fmt.Sprintf("198.18.%d.%d", s.number, host) }

func (s subnet) ip6(host int) string {
	if !s.six {
		return ""
	}
	return fmt.Sprintf("fd65:7463:6400:%x::%x", s.number, host)
}

// network makes a network with a number that nobody else has, without IPv6
// where the host has none.
func network(ctx context.Context) (subnet, error) {
	var errs []error
	for i := range 20 {
		s := subnet{number: (os.Getpid() + i) % 250, six: true}
		s.name = fmt.Sprintf("etcdadm-e2e-%d", s.number)
		args := []string{
			"network", "create", "--label=" + owner(), "--opt=com.docker.network.bridge.enable_ip_masquerade=false",
			"--subnet=" + s.ip4(0) + "/24",
		}
		_, err := docker(ctx, append(args, "--ipv6", "--subnet="+s.ip6(0)+"/64", s.name)...)
		if err != nil && strings.Contains(strings.ToLower(err.Error()), "ipv6") {
			s.six = false
			_, err = docker(ctx, append(args, s.name)...)
		}
		if err == nil {
			return s, nil
		}
		errs = append(errs, err)
	}
	return subnet{}, fmt.Errorf("no free network: %w", errors.Join(errs...))
}
