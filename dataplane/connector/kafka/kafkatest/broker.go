// Package kafkatest runs Kafka for tests: a real Apache Kafka broker in a JVM of its own, which can be killed
// and restarted on its data, and kfake clusters within the process.
package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Options are the settings of a broker. Zero values mean the defaults.
type Options struct {
	// Dir holds the broker's data and log file. Required; it may be that of an earlier broker.
	Dir string
	// Heap is the JVM's -Xmx: 512m.
	Heap string
	// Properties are added to server.properties.
	Properties map[string]string
	// Features are finalized at format, such as transaction.version=1; else they are the release's.
	Features []string
	// Ready bounds the wait for the first answer: 90 s.
	Ready time.Duration
}

// Broker is a single Kafka broker, KRaft controller included, in a process of its own. Its methods are not
// safe for concurrent use.
type Broker struct {
	opts             Options
	libs             string
	port, controller int
	cmd              *exec.Cmd
	exited           chan struct{}
}

// Start formats opts.Dir if it is new, starts the broker and waits until it answers.
func Start(ctx context.Context, opts Options) (*Broker, error) {
	if opts.Heap == "" {
		opts.Heap = "512m"
	}
	if opts.Ready == 0 {
		opts.Ready = 90 * time.Second
	}
	if _, err := exec.LookPath("java"); err != nil {
		return nil, fmt.Errorf("%w: java: %w", ErrNoTools, err)
	}
	libs, err := Libs(ctx)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, fmt.Errorf("kafka broker: %w", err)
	}
	b := &Broker{opts: opts, libs: libs, port: ports[0], controller: ports[1]}
	if err := b.configure(); err != nil {
		return nil, fmt.Errorf("kafka broker: %w", err)
	}
	if err := b.format(ctx); err != nil {
		return nil, fmt.Errorf("kafka broker: %w", err)
	}
	return b, b.Restart(ctx)
}

// StartT is Start for a test, which ends the broker, in a temporary folder unless opts name one. See
// SkipUnlessReal.
func StartT(t testing.TB, opts Options) *Broker {
	t.Helper()
	SkipUnlessReal(t)
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	b, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Kill)
	return b
}

// SkipUnlessReal skips a test that needs a real broker with -short, and without java or the means to get the
// broker's jars unless $WEIR_REQUIRE_REAL is set.
func SkipUnlessReal(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("a real broker takes too long for -short")
	}
	_, err := exec.LookPath("java")
	if err == nil {
		_, err = Libs(t.Context())
	}
	if err != nil && os.Getenv(RequireEnv) == "" && (errors.Is(err, exec.ErrNotFound) || errors.Is(err, ErrNoTools)) {
		t.Skip(err)
	}
}

// Addr is host:port of the broker. It stays the same through Kill and Restart.
func (b *Broker) Addr() string { return fmt.Sprintf("127.0.0.1:%d", b.port) }

// LogFile is what the broker writes to its standard output and error.
func (b *Broker) LogFile() string { return filepath.Join(b.opts.Dir, "broker.log") }

// Pid is the process id of the broker's JVM; 0 when it does not run.
func (b *Broker) Pid() int {
	if b.cmd == nil {
		return 0
	}
	return b.cmd.Process.Pid
}

// Kill ends the broker with SIGKILL and waits for its end. It is a no-op when the broker does not run.
func (b *Broker) Kill() { b.end(syscall.SIGKILL) }

// Stop lets the broker shut down cleanly and waits for it.
func (b *Broker) Stop() { b.end(syscall.SIGTERM) }

func (b *Broker) end(sig syscall.Signal) {
	if b.cmd == nil {
		return
	}
	_ = b.cmd.Process.Signal(sig) // it may have ended by itself
	select {
	case <-b.exited:
	case <-time.After(30 * time.Second):
		_ = b.cmd.Process.Kill()
		<-b.exited
	}
	b.cmd = nil
}

// Restart starts the broker again on its data and ports, and waits until it answers.
func (b *Broker) Restart(ctx context.Context) error {
	b.Kill()
	log, err := os.OpenFile(b.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("kafka broker: %w", err)
	}
	defer log.Close()
	cmd := b.java("kafka.Kafka", b.config())
	cmd.Stdout, cmd.Stderr = log, log
	exited, err := launch(cmd)
	if err != nil {
		return fmt.Errorf("kafka broker: %w", err)
	}
	b.cmd, b.exited = cmd, exited
	if err := b.awaitReady(ctx); err != nil {
		b.Kill()
		return fmt.Errorf("kafka broker on %s: %w; its log ends:\n%s", b.Addr(), err, b.logTail())
	}
	return nil
}

// launch starts a process that does not outlive this one, so that it ends with a test that is killed. exited is
// closed at its end.
func launch(cmd *exec.Cmd) (exited chan struct{}, err error) {
	cmd.SysProcAttr = dieWithParent()
	exited = make(chan struct{})
	started := make(chan error, 1)
	go func() {
		// The death signal comes when the thread that started the process ends, and threads do end in a Go
		// program: with the goroutines that are locked to them. This one stays, and nobody else uses its thread.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
			close(exited)
		}
	}()
	return exited, <-started
}

// awaitReady asks for metadata until the broker answers with itself.
func (b *Broker) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.opts.Ready)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	if err != nil {
		return err
	}
	defer cl.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
		if err == nil && len(resp.Brokers) == 1 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w", ctx.Err())
		case <-b.exited:
			return errors.New("it ended")
		case <-tick.C:
		}
	}
}

func (b *Broker) config() string { return filepath.Join(b.opts.Dir, "server.properties") }

func (b *Broker) java(args ...string) *exec.Cmd {
	args = append([]string{"-Xmx" + b.opts.Heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=4",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", filepath.Join(b.libs, "*")}, args...)
	return exec.Command("java", args...)
}

func (b *Broker) configure() error {
	properties := map[string]string{
		"process.roles":                            "broker,controller",
		"node.id":                                  "1",
		"controller.quorum.bootstrap.servers":      fmt.Sprintf("127.0.0.1:%d", b.controller),
		"listeners":                                fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", b.port, b.controller),
		"advertised.listeners":                     fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", b.port),
		"controller.listener.names":                "CONTROLLER",
		"listener.security.protocol.map":           "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs":                                 filepath.Join(b.opts.Dir, "data"),
		"offsets.topic.replication.factor":         "1",
		"offsets.topic.num.partitions":             "4",
		"transaction.state.log.replication.factor": "1",
		"transaction.state.log.min.isr":            "1",
		"transaction.state.log.num.partitions":     "4",
		"group.initial.rebalance.delay.ms":         "0",
		"auto.create.topics.enable":                "false",
	}
	for k, v := range b.opts.Properties {
		properties[k] = v
	}
	var text strings.Builder
	keys := make([]string, 0, len(properties))
	for k := range properties {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		fmt.Fprintf(&text, "%s=%s\n", k, properties[k])
	}
	if err := os.MkdirAll(b.opts.Dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(b.config(), []byte(text.String()), 0o644)
}

// format writes the cluster's id and the first metadata, once.
func (b *Broker) format(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(b.opts.Dir, "data", "meta.properties")); err == nil {
		return nil
	}
	const id = "d2VpciB0ZXN0IGNsdXN0ZQ" // 16 bytes in base64url, as Kafka writes its ids
	args := []string{"kafka.tools.StorageTool", "format", "--standalone", "-t", id, "-c", b.config()}
	for _, f := range b.opts.Features {
		args = append(args, "--feature", f)
	}
	cmd := b.java(args...)
	out, err := runWith(ctx, cmd)
	if err != nil {
		return fmt.Errorf("format: %w\n%s", err, out)
	}
	return nil
}

// runWith runs cmd and kills it when ctx ends.
func runWith(ctx context.Context, cmd *exec.Cmd) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill()
		}
	})
	defer stop()
	return cmd.CombinedOutput()
}

func (b *Broker) logTail() string {
	text, err := os.ReadFile(b.LogFile())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4096):])
}

// freePorts returns n TCP ports that were free a moment ago.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
