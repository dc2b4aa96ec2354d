package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Bucket is the bucket that the embedded S3 server has.
const Bucket = "weir"

// S3 is an object store in this process's memory.
type S3 struct {
	listener net.Listener
	server   *http.Server
}

// StartS3 serves an empty bucket on a free port of loopback.
func StartS3() (*S3, error) {
	backend := s3mem.New()
	if err := backend.CreateBucket(Bucket); err != nil {
		return nil, fmt.Errorf("embedded s3: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("embedded s3: %w", err)
	}
	s := &S3{listener: l}
	s.server = &http.Server{
		Handler:           gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server(),
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() { _ = s.server.Serve(l) }() // it returns when Stop is called
	return s, nil
}

// Endpoint is the server's URL.
func (s *S3) Endpoint() string { return "http://" + s.listener.Addr().String() }

// Stop ends the server; what it holds is gone.
func (s *S3) Stop(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return s.server.Close()
	}
	return err
}
