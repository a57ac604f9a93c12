// Command balancer takes the place of HAProxy in kind's load balancer. It reads the servers from the
// configuration that kind writes, and sends each connection to one that is ready. It is also the
// few commands that kind runs in that container.
package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const config = "/usr/local/etc/haproxy/haproxy.cfg"

func main() {
	var err error
	switch args := os.Args[1:]; filepath.Base(os.Args[0]) {
	case "mkdir":
		err = os.MkdirAll(args[len(args)-1], 0o755)
	case "cp":
		err = write(args[len(args)-1])
	case "kill":
		err = hangUp(args[len(args)-1])
	default:
		err = balance()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(file string) error {
	b, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o644)
}

func hangUp(process string) error {
	pid, err := strconv.Atoi(process)
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGHUP)
}

// A server is an API server, as the last probe found it.
type server struct {
	address string
	ready   atomic.Bool
	stop    chan struct{}
}

// A pool holds the servers.
type pool struct {
	sync.Mutex
	servers []*server
}

var serverLine = regexp.MustCompile(`(?m)^\s*server \S+ (\S+)`)

// load replaces the servers by those of the configuration.
func (p *pool) load() {
	text, err := os.ReadFile(config)
	if err != nil {
		return // kind has not written it yet
	}
	p.Lock()
	defer p.Unlock()
	for _, s := range p.servers {
		close(s.stop)
	}
	p.servers = nil
	for _, m := range serverLine.FindAllSubmatch(bytes.TrimSpace(text), -1) {
		s := &server{address: string(m[1]), stop: make(chan struct{})}
		go s.probe()
		p.servers = append(p.servers, s)
	}
}

// probe asks the server again and again whether it is ready.
func (s *server) probe() {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // it is only asked whether it is ready
	}}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := client.Get("https://" + s.address + "/readyz")
		ready := err == nil && resp.StatusCode == http.StatusOK
		if err == nil {
			resp.Body.Close()
		}
		if s.ready.Swap(ready) != ready {
			log.Printf("%s ready: %v", s.address, ready)
		}
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
	}
}

// dial connects to a server, those that are ready first.
func (p *pool) dial() (net.Conn, error) {
	p.Lock()
	order := append([]*server(nil), p.servers...)
	p.Unlock()
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	err := fmt.Errorf("%s names no servers", config)
	for _, ready := range []bool{true, false} {
		for _, s := range order {
			if s.ready.Load() != ready {
				continue
			}
			var c net.Conn
			if c, err = net.DialTimeout("tcp", s.address, time.Second); err == nil {
				return c, nil
			}
		}
	}
	return nil, err
}

func balance() error {
	var p pool
	p.load()
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	go func() {
		for range again {
			p.load()
		}
	}()
	l, err := net.Listen("tcp", ":6443")
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			s, err := p.dial()
			if err != nil {
				log.Print(err)
				return
			}
			defer s.Close()
			go func() {
				io.Copy(s, c) //nolint:errcheck // the other direction ends with it
				s.(*net.TCPConn).CloseWrite()
			}()
			io.Copy(c, s) //nolint:errcheck // nothing is left to say
		}()
	}
}
