// Package servers starts real object stores on loopback, for tests and
// benchmarks: an S3 server (versitygw, on a directory) and a GCS server
// (fake-gcs-server, in memory). They are processes, built from Go modules when they
// are first needed on a machine, which takes a minute.
package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/etcdadm/etcdadm/pkg/testing/testchild"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// startTime bounds the time from start to the first answer.
const startTime = 2 * time.Minute

// TB is the part of a test or benchmark that is needed.
type TB interface {
	testport.TB
	TempDir() string
	Setenv(key, value string)
	Context() context.Context
}

// A Server is a running server.
type Server struct {
	// PID is its process.
	PID int

	cmd  *exec.Cmd
	log  *tail
	over chan struct{}
	// ports gives the port back.
	ports *holder
}

// S3 is an S3 server with one bucket.
type S3 struct {
	*Server
	// Endpoint is its URL, Key and Secret those of its owner.
	Endpoint, Region, Key, Secret string
	Bucket                        string
	// Dir has a directory for each bucket, and in it the objects as files.
	Dir string
}

// GCS is a GCS server with one bucket.
type GCS struct {
	*Server
	// Host is HOST:PORT, for STORAGE_EMULATOR_HOST.
	Host   string
	Bucket string
}

// StartS3 starts an S3 server for a test, which stops it. It sets the S3_
// variables of the environment, so that Location opens the bucket.
func StartS3(t TB) *S3 {
	t.Helper()
	s, err := RunS3(t.Context(), t.TempDir())
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(s.Stop)
	s.Setenv(t)
	return s
}

// Setenv sets the environment that Location needs.
func (s *S3) Setenv(t interface{ Setenv(key, value string) }) {
	for name, value := range s.Environ() {
		t.Setenv(name, value)
	}
}

// Environ returns the environment that Location needs.
func (s *S3) Environ() map[string]string {
	return map[string]string{
		"S3_ENDPOINT": s.Endpoint, "S3_REGION": s.Region, "S3_ACCESS_KEY_ID": s.Key, "S3_SECRET_ACCESS_KEY": s.Secret,
	}
}

// Location returns the location of a store in the bucket.
func (s *S3) Location(path string) string { return "s3://" + s.Bucket + "/" + path }

// Client returns a client of the server.
func (s *S3) Client() *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(s.Endpoint), Region: s.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(s.Key, s.Secret, ""),
	})
}

// RunS3 starts an S3 server on an empty directory. The caller must stop it.
func RunS3(ctx context.Context, dir string) (*S3, error) {
	program, err := binary(ctx, "s3", "versitygw")
	if err != nil {
		return nil, err
	}
	s := &S3{Region: "us-east-1", Key: "owner", Secret: "secret-of-the-owner", Bucket: "backups",
		Dir: filepath.Join(dir, "buckets")}
	versions := filepath.Join(dir, "versions")
	for _, d := range []string{s.Dir, versions} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	var address string
	s.Server, address, err = start(func(address string) *exec.Cmd {
		return exec.Command(program, "--port", address, "--access", s.Key, "--secret", s.Secret, "--region", s.Region,
			"--quiet", "--keep-alive", "--health", "/health", "posix", "--versioning-dir", versions, s.Dir)
	})
	if err != nil {
		return nil, fmt.Errorf("start the S3 server: %w", err)
	}
	s.Endpoint = "http://" + address
	err = s.wait(ctx, s.Endpoint+"/health")
	if err == nil {
		err = s.MakeBucket(ctx, s.Bucket)
	}
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("start the S3 server: %w\n%s", err, s.log)
	}
	return s, nil
}

// MakeBucket makes another bucket.
func (s *S3) MakeBucket(ctx context.Context, name string) error {
	_, err := s.Client().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &name})
	return err
}

// StartGCS starts a GCS server for a test, which stops it. It sets
// STORAGE_EMULATOR_HOST, so that Location opens the bucket.
func StartGCS(t TB) *GCS {
	t.Helper()
	g, err := RunGCS(t.Context())
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(g.Stop)
	t.Setenv("STORAGE_EMULATOR_HOST", g.Host)
	return g
}

// Location returns the location of a store in the bucket.
func (g *GCS) Location(path string) string { return "gs://" + g.Bucket + "/" + path }

// RunGCS starts a GCS server, in memory. The caller must stop it.
func RunGCS(ctx context.Context) (*GCS, error) {
	program, err := binary(ctx, "gcs", "fake-gcs-server")
	if err != nil {
		return nil, err
	}
	g := &GCS{Bucket: "backups"}
	g.Server, g.Host, err = start(func(address string) *exec.Cmd {
		host, port, _ := strings.Cut(address, ":")
		return exec.Command(program, "-scheme", "http", "-host", host, "-port", port, "-public-host", address,
			"-external-url", "http://"+address, "-backend", "memory", "-log-level", "error")
	})
	if err != nil {
		return nil, fmt.Errorf("start the GCS server: %w", err)
	}
	err = g.wait(ctx, "http://"+g.Host+"/storage/v1/b?project=p")
	if err == nil {
		err = g.makeBucket(ctx)
	}
	if err != nil {
		g.Stop()
		return nil, fmt.Errorf("start the GCS server: %w\n%s", err, g.log)
	}
	return g, nil
}

func (g *GCS) makeBucket(ctx context.Context) error {
	u := url.URL{Scheme: "http", Host: g.Host, Path: "/storage/v1/b", RawQuery: "project=p"}
	body := strings.NewReader(fmt.Sprintf(`{"name":%q}`, g.Bucket))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("make bucket: %s", answer.Status)
	}
	return nil
}

// start starts a server at a free address.
func start(command func(address string) *exec.Cmd) (_ *Server, address string, err error) {
	ports := &holder{}
	address = testport.Address(ports)
	if ports.err != nil {
		return nil, "", ports.err
	}
	cmd := command(address)
	s := &Server{cmd: cmd, log: &tail{}, over: make(chan struct{}), ports: ports}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := testchild.Start(cmd); err != nil {
		ports.release()
		return nil, "", err
	}
	s.PID = cmd.Process.Pid
	go func() {
		defer close(s.over)
		// How it ended does not matter: it is killed.
		_ = cmd.Wait()
	}()
	return s, address, nil
}

// wait waits until the server answers at a URL.
func (s *Server) wait(ctx context.Context, at string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
		if err != nil {
			return err
		}
		if answer, err := http.DefaultClient.Do(request); err == nil {
			_ = answer.Body.Close()
			return nil
		}
		select {
		case <-tick.C:
		case <-s.over:
			return errors.New("it ended")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Stop kills the server and waits for its end.
func (s *Server) Stop() {
	// It may have ended already.
	_ = s.cmd.Process.Kill()
	<-s.over
	s.ports.release()
}

// A holder keeps ports for a server.
type holder struct {
	err      error
	cleanups []func()
}

func (h *holder) Helper()                           {}
func (h *holder) Fatalf(format string, args ...any) { h.err = fmt.Errorf(format, args...) }
func (h *holder) Cleanup(f func())                  { h.cleanups = append(h.cleanups, f) }

func (h *holder) release() {
	for _, f := range h.cleanups {
		f()
	}
	h.cleanups = nil
}

// A tail keeps the end of what a server says.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

const maxTail = 16 << 10

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Write(p)
	if over := l.b.Len() - maxTail; over > 0 {
		l.b.Next(over)
	}
	return len(p), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
