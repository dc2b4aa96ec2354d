package s3

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
	"github.com/weirstream/weir/dataplane/snapshot/snapshottest"
)

const bucket = "weir"

// fake starts an S3 server in this process behind wrap (nil for none) and returns how to reach it.
func fake(t *testing.T, wrap func(http.Handler) http.Handler) Config {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	h := gofakes3.New(backend).Server()
	if wrap != nil {
		h = wrap(h)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return Config{
		Bucket: bucket, Prefix: "some/prefix", Endpoint: srv.URL, Region: "us-east-1", PathStyle: true, AccessKey: "key", SecretKey: "secret",
		PartSize: 5 << 20, RetryFor: 10 * time.Second, BackoffMin: time.Millisecond, BackoffMax: 4 * time.Millisecond,
	}
}

func mustOpen(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformanceFake(t *testing.T) {
	cfg := fake(t, nil)
	snapshottest.Run(t, snapshottest.Options{LargeFile: 12 << 20, Many: 1100, NoDigests: true}, func(t *testing.T) snapshot.Store { return mustOpen(t, cfg) })
}

func TestConformanceVersityGW(t *testing.T) {
	cfg := versitygw(t)
	snapshottest.Run(t, snapshottest.Options{LargeFile: 12 << 20, Many: 1100}, func(t *testing.T) snapshot.Store { return mustOpen(t, cfg) })
	t.Run("completion of a multipart upload is conditional", func(t *testing.T) { testConditionalCompletion(t, mustOpen(t, cfg)) })
	t.Run("stale uploads are aborted", func(t *testing.T) { testAbortUploads(t, mustOpen(t, cfg)) })
	t.Run("rights and credentials", func(t *testing.T) {
		wrong := cfg
		wrong.SecretKey = "wrong"
		err := mustOpen(t, wrong).Create(t.Context(), "0a/attempt-1", nil)
		if job.ClassOf(err) != job.Fatal || !strings.Contains(err.Error(), "secret key is wrong") || strings.Contains(err.Error(), cfg.SecretKey) {
			t.Errorf("wrong secret: got %v, want a fatal error that says so", err)
		}
		wrong.AccessKey = "nobody"
		if _, err = mustOpen(t, wrong).List(t.Context(), "0a/"); job.ClassOf(err) != job.Fatal || !strings.Contains(err.Error(), "access key") {
			t.Errorf("unknown access key: got %v, want a fatal error that says so", err)
		}
		wrong = cfg
		wrong.Bucket = "nothing-here"
		if err = mustOpen(t, wrong).Create(t.Context(), "0a/attempt-1", nil); job.ClassOf(err) != job.Fatal || !strings.Contains(err.Error(), "bucket does not exist") {
			t.Errorf("missing bucket: got %v, want a fatal error that says so", err)
		}
	})
}

// testConditionalCompletion lets another writer create the object while the parts are on their way.
func testConditionalCompletion(t *testing.T, s *Store) {
	const key = "0f/shared/1-1-x"
	ctx := t.Context()
	if err := s.Create(ctx, key, []byte("first")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(path, make([]byte, 6<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	_, digest, err := snapshot.HashFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// HEAD is answered 404 here, as if the other writer came right after it.
	cfg := s.cfg
	cfg.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodHead {
			return &http.Response{StatusCode: 404, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
		}
		return http.DefaultTransport.RoundTrip(r)
	})}
	if err := mustOpen(t, cfg).Upload(ctx, key, path, 6<<20, digest); !errors.Is(err, snapshot.ErrExists) {
		t.Errorf("got %v, want ErrExists", err)
	}
	if b, err := s.Get(ctx, key, 100); err != nil || string(b) != "first" {
		t.Errorf("object: got %q, %v, want the first writer's", b, err)
	}
	open, err := s.c.ListMultipartUploads(ctx, &awss3.ListMultipartUploadsInput{Bucket: s.bucket()})
	if err != nil || len(open.Uploads) != 0 {
		t.Errorf("uploads left open: %v, %v", open, err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// versitygw starts a real S3 server over a temporary directory. It is skipped without the binary, which is looked
// for in WEIR_VERSITYGW, the PATH and ~/go/bin, unless WEIR_REQUIRE_REAL says that it must be there.
func versitygw(t *testing.T) Config {
	t.Helper()
	bin := os.Getenv("WEIR_VERSITYGW")
	if bin == "" {
		home, _ := os.UserHomeDir()
		for _, name := range []string{"versitygw", filepath.Join(home, "go", "bin", "versitygw")} {
			if p, err := exec.LookPath(name); err == nil {
				bin = p
				break
			}
		}
	}
	if bin == "" {
		if os.Getenv("WEIR_REQUIRE_REAL") != "" {
			t.Fatal("versitygw not found; go install github.com/versity/versitygw/cmd/versitygw@v1.8.0")
		}
		t.Skip("versitygw not found")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	root, meta := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(root, bucket), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, bin, "--quiet", "--port", addr, "--access", "weirkey", "--secret", "weirsecret0123", "posix", "--sidecar", meta, root)
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	cfg := Config{
		Bucket: bucket, Prefix: "p", Endpoint: "http://" + addr, Region: "us-east-1", PathStyle: true, AccessKey: "weirkey", SecretKey: "weirsecret0123",
		PartSize: 5 << 20, RetryFor: 30 * time.Second, BackoffMin: 20 * time.Millisecond, BackoffMax: 200 * time.Millisecond,
	}
	if _, err := mustOpen(t, cfg).List(t.Context(), ""); err != nil { // retried until it listens
		t.Fatalf("versitygw does not come up: %v", err)
	}
	return cfg
}

// faults answers requests by a script: each entry is used once, in order, for requests that match its method.
type faults struct {
	mu     sync.Mutex
	script []fault
	seen   []string
}

type fault struct {
	method, query string // query: a part of it, such as "uploads"
	status        int
	code          string
	before        bool // lose the request's reply: carry it out first
}

func (f *faults) next(r *http.Request) *fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, r.Method+" "+r.URL.RawQuery)
	if len(f.script) == 0 || f.script[0].method != r.Method || !strings.Contains(r.URL.RawQuery, f.script[0].query) {
		return nil
	}
	n := f.script[0]
	f.script = f.script[1:]
	return &n
}

func (f *faults) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := f.next(r)
		if n == nil {
			h.ServeHTTP(w, r)
			return
		}
		if n.before {
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		if n.status == 0 { // the connection breaks
			panic(http.ErrAbortHandler)
		}
		// A server that answers before it has read the body closes the connection, and the client may see only that.
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(n.status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>injected</Message></Error>", n.code)
	})
}

func TestRetries(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, 11<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	_, digest, err := snapshot.HashFile(large)
	if err != nil {
		t.Fatal(err)
	}
	create := func(s *Store) error { return s.Create(t.Context(), "0a/chk-1/manifest", []byte("x")) }
	upload := func(s *Store) error { return s.Upload(t.Context(), "0a/shared/1-1-"+digest, large, 11<<20, digest) }
	get := func(s *Store) error {
		if err := s.Put(t.Context(), "0a/attempt-1", []byte("hello")); err != nil {
			return err
		}
		b, err := s.Get(t.Context(), "0a/attempt-1", 10)
		if err == nil && string(b) != "hello" {
			return fmt.Errorf("got %q", b)
		}
		return err
	}
	for _, c := range []struct {
		name   string
		script []fault
		call   func(*Store) error
		want   error
	}{
		{"503, SlowDown, 429 and a broken connection are repeated", []fault{
			{method: "PUT", status: 503, code: "ServiceUnavailable"}, {method: "PUT", status: 503, code: "SlowDown"}, {method: "PUT", status: 429, code: "TooManyRequests"},
			{method: "PUT", status: 500, code: "InternalError"}, {method: "PUT"}, {method: "PUT", status: 400, code: "RequestTimeout"},
		}, create, nil},
		{"409 on a conditional write is repeated", []fault{{method: "PUT", status: 409, code: "ConditionalRequestConflict"}}, create, nil},
		{"a lost reply: the object is there, the caller has to read it", []fault{{method: "PUT", before: true}}, create, snapshot.ErrExists},
		{"412 is an answer", []fault{{method: "PUT", status: 412, code: "PreconditionFailed"}}, create, snapshot.ErrExists},
		{"404 without the object's code is repeated no more than it must", []fault{{method: "GET", status: 404, code: "NoSuchKey"}}, get, snapshot.ErrNotFound},
		{"get over a broken connection", []fault{{method: "GET"}, {method: "GET", status: 502, code: ""}}, get, nil},
		{"an upload part is repeated alone", []fault{{method: "PUT", query: "partNumber=2", status: 503, code: "SlowDown"}}, upload, nil},
		{"409 on completion starts anew", []fault{{method: "POST", query: "uploadId", status: 409, code: "ConditionalRequestConflict"}}, upload, nil},
		{"a lost reply to the completion", []fault{{method: "POST", query: "uploadId", before: true}}, upload, snapshot.ErrExists},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &faults{script: c.script}
			s := mustOpen(t, fake(t, f.wrap))
			if err := c.call(s); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if len(f.script) > 0 {
				t.Errorf("not reached: %v (requests: %q)", f.script, f.seen)
			}
		})
	}
}

// Ensure that a failed multipart upload leaves no parts behind.
func TestFailedUploadIsAborted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(path, make([]byte, 11<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &faults{script: []fault{{method: "PUT", query: "partNumber=2", status: 403, code: "AccessDenied"}}}
	s := mustOpen(t, fake(t, f.wrap))
	err := s.Upload(t.Context(), "0a/shared/1-1-x", path, 11<<20, strings.Repeat("0", 64))
	if job.ClassOf(err) != job.Fatal || !strings.Contains(err.Error(), "s3:PutObject") {
		t.Errorf("got %v, want a fatal error that names the rights", err)
	}
	open, err := s.c.ListMultipartUploads(t.Context(), &awss3.ListMultipartUploadsInput{Bucket: s.bucket()})
	if err != nil || len(open.Uploads) != 0 {
		t.Errorf("uploads left open: %d, %v", len(open.Uploads), err)
	}
	// The digest is checked before the parts are joined, also where the server checks nothing.
	err = s.Upload(t.Context(), "0a/shared/1-1-x", path, 11<<20, strings.Repeat("0", 64))
	if job.ClassOf(err) != job.Fatal || !strings.Contains(err.Error(), "has digest") {
		t.Errorf("wrong digest: got %v, want a fatal error", err)
	}
}

// Ensure that what a killed process left is aborted, and what may be in progress is not.
func testAbortUploads(t *testing.T, s *Store) {
	for _, key := range []string{"0a/shared/1-1-x", "0b/shared/1-1-x"} {
		if _, err := s.c.CreateMultipartUpload(t.Context(), &awss3.CreateMultipartUploadInput{Bucket: s.bucket(), Key: s.key(key)}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.AbortUploads(t.Context(), "0a/", time.Now().Add(-time.Hour)); err != nil || n != 0 {
		t.Errorf("younger than an hour: aborted %d, %v, want 0", n, err)
	}
	for _, want := range []int{1, 0} {
		if n, err := s.AbortUploads(t.Context(), "0a/", time.Now().Add(time.Hour)); err != nil || n != want {
			t.Errorf("aborted %d, %v, want %d, and not the other job's", n, err, want)
		}
	}
}

func TestAbortUploadsFake(t *testing.T) { testAbortUploads(t, mustOpen(t, fake(t, nil))) }

func TestPatienceIsBounded(t *testing.T) {
	down := func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) })
	}
	cfg := fake(t, down)
	cfg.RetryFor = 50 * time.Millisecond
	err := mustOpen(t, cfg).Create(t.Context(), "0a/attempt-1", nil)
	if err == nil || job.ClassOf(err) != job.Retryable || !strings.Contains(err.Error(), "gave up after") {
		t.Errorf("got %v, want a retryable error after several tries", err)
	}
	if strings.Contains(err.Error(), "gave up after 1 tries") {
		t.Errorf("got %v, want several tries", err)
	}
	cfg.RetryFor = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := mustOpen(t, cfg).Create(ctx, "0a/attempt-1", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("context: got %v, want DeadlineExceeded", err)
	}
}

// Ensure that the default patience outlasts half a minute of SlowDown, unlike the SDK's.
func TestDefaultPatience(t *testing.T) {
	if got := (Config{}).withDefaults().RetryFor; got <= 30*time.Second {
		t.Errorf("got %s, want more than 30s", got)
	}
}

func TestTruncatedBody(t *testing.T) {
	cut := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				h.ServeHTTP(w, r)
				return
			}
			c, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			writeHalf(rw)
		})
	}
	cfg := fake(t, cut)
	cfg.RetryFor = 20 * time.Millisecond
	s := mustOpen(t, cfg)
	if b, err := s.Get(t.Context(), "0a/attempt-1", 100); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("get: got %q, %v, want ErrUnexpectedEOF", b, err)
	}
	r, err := s.Open(t.Context(), "0a/attempt-1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("open: got %q, %v, want ErrUnexpectedEOF", b, err)
	}
}

func writeHalf(rw *bufio.ReadWriter) {
	fmt.Fprint(rw, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf.")
	rw.Flush()
}

func TestErrorsKeepSecrets(t *testing.T) {
	cfg := fake(t, nil)
	cfg.Bucket, cfg.SecretKey = "missing-bucket", "canary-secret"
	err := mustOpen(t, cfg).Create(t.Context(), "0a/attempt-1", nil)
	if job.ClassOf(err) != job.Fatal || !strings.Contains(err.Error(), "create s3://missing-bucket/some/prefix/0a/attempt-1") || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v, want a fatal error with operation and key and without secrets", err)
	}
}

func TestParseURL(t *testing.T) {
	for in, want := range map[string]string{"s3://b": "b|", "s3://b/": "b|", "s3://b/p/q/": "b|p/q"} {
		if c, err := ParseURL(in); err != nil || c.Bucket+"|"+c.Prefix != want {
			t.Errorf("%s: got %s|%s, %v, want %s", in, c.Bucket, c.Prefix, err, want)
		}
	}
	for _, in := range []string{"", "b/p", "file:///x", "s3:///p", "s3://user:canary@b/p", "s3://b:9000/p", "s3://b/p?endpoint=x", "s3://b/../x", "s3://b/a//c", "s3://us\x7fer:canary@b"} {
		if c, err := ParseURL(in); err == nil {
			t.Errorf("%q: accepted as %+v", in, c)
		} else if strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: the error repeats the secret: %v", in, err)
		}
	}
}
