package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// ErrNoGateway says that versitygw is missing.
var ErrNoGateway = errors.New("the versitygw command is not on the PATH: make tool-versitygw builds it")

// Gateway is an S3 server over a directory, versitygw, in a child process.
type Gateway struct {
	addr string
	proc *process
}

// The keys of a Gateway, which listens on loopback only.
const gatewayKey, gatewaySecret = "weir", "weir-local"

// FindGateway returns the path of versitygw.
func FindGateway() (string, error) {
	if p, err := exec.LookPath("versitygw"); err == nil {
		return p, nil
	}
	if home, err := os.UserHomeDir(); err == nil {
		if p := filepath.Join(home, "go", "bin", "versitygw"); isFile(p) {
			return p, nil
		}
	}
	return "", ErrNoGateway
}

// StartGateway serves the bucket called Bucket from dir/s3 on a free port of loopback and waits until it answers.
func StartGateway(ctx context.Context, dir string) (*Gateway, error) {
	bin, err := FindGateway()
	if err != nil {
		return nil, err
	}
	root := filepath.Join(dir, "s3")
	if err := os.MkdirAll(filepath.Join(root, Bucket), 0o700); err != nil {
		return nil, fmt.Errorf("s3 server: %w", err)
	}
	port, err := (&ports{}).pick()
	if err != nil {
		return nil, fmt.Errorf("s3 server: %w", err)
	}
	g := &Gateway{addr: loopback(port)}
	g.proc = &process{
		name: "versitygw", path: bin, log: filepath.Join(dir, "s3.log"),
		args: []string{"--port", g.addr, "--access", gatewayKey, "--secret", gatewaySecret, "posix", "--nometa", root},
	}
	if err := g.proc.start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err = g.proc.await(ctx, func(ctx context.Context) error {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", g.addr)
		if err == nil {
			c.Close()
		}
		return err
	})
	if err != nil {
		g.proc.kill()
		return nil, err
	}
	return g, nil
}

// Endpoint is the server's URL.
func (g *Gateway) Endpoint() string { return "http://" + g.addr }

// Env are the environment variables with which the AWS SDK reaches the server.
func (g *Gateway) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + gatewayKey, "AWS_SECRET_ACCESS_KEY=" + gatewaySecret}
}

// Pid is the process id.
func (g *Gateway) Pid() int { return g.proc.pid() }

// Stop ends the server; its directory stays.
func (g *Gateway) Stop() { g.proc.stop(5 * time.Second) }
