package real

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Gateway is a versitygw process that serves a directory as S3, with a bucket called weir.
type Gateway struct {
	t         testing.TB
	bin, addr string
	root      string
	// Secret is what the server accepts when it is started next.
	Secret string
	log    *os.File
	cmd    *exec.Cmd
}

// The credentials of the gateway.
const (
	AccessKey = "weir"
	SecretKey = "weir-secret"
)

func startGateway(t testing.TB, bin, dir string) *Gateway {
	t.Helper()
	g := &Gateway{t: t, bin: bin, Secret: SecretKey, root: filepath.Join(dir, "s3")}
	if err := os.MkdirAll(filepath.Join(g.root, "weir"), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.addr = l.Addr().String()
	l.Close()
	if g.log, err = os.Create(filepath.Join(dir, "s3.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Kill()
		g.log.Close()
	})
	g.Start()
	return g
}

// Root is the directory that it serves: an object of the bucket weir is the file weir/<key> in it.
func (g *Gateway) Root() string { return g.root }

// Endpoint is the gateway's URL.
func (g *Gateway) Endpoint() string { return "http://" + g.addr }

// Kill ends the process with SIGKILL; what it stored stays.
func (g *Gateway) Kill() {
	if g.cmd != nil {
		_ = g.cmd.Process.Kill()
		_ = g.cmd.Wait()
		g.cmd = nil
	}
}

// Start starts the process on its directory and waits until it listens.
func (g *Gateway) Start() {
	g.t.Helper()
	g.cmd = exec.Command(g.bin, "--port", g.addr, "--access", AccessKey, "--secret", g.Secret, "posix", "--nometa", g.root)
	g.cmd.Stdout, g.cmd.Stderr = g.log, g.log
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(20 * time.Second)
	for {
		conn, err := net.DialTimeout("tcp", g.addr, time.Second)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			g.t.Fatal(fmt.Errorf("versitygw does not answer: %w", err))
		}
		<-tick.C
	}
}
