// Package worker assembles one worker process: the node with its exchange and cluster membership, the
// Temporal workers that drive it, and the HTTP server that shows it.
package worker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/weirstream/weir/activities"
	"github.com/weirstream/weir/cmd/engine"
	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/cluster"
	"github.com/weirstream/weir/dataplane/exchange"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/node"
	"github.com/weirstream/weir/workflows"
)

// Config is what a worker process is told.
type Config struct {
	Settings *config.Settings
	// Temporal are the options of the client, from Temporal's own environment configuration.
	Temporal client.Options
	Version  string
	Log      *slog.Logger
	// Ready is called once when the process is a member of the cluster and polls Temporal. Optional.
	Ready func(id job.NodeID, http string)
}

// process holds the parts of a running worker in the order in which they start.
type process struct {
	cfg     Config
	id      job.NodeID
	log     *slog.Logger
	data    *dataDir
	server  *exchange.Server
	cluster *cluster.Cluster
	node    *node.Node
	stores  *engine.Stores
	engine  *engine.Engine
	http    *httpServer
	client  client.Client
	workers []sdkworker.Worker
}

// Run runs a worker until ctx ends, then leaves cleanly: its tasks fail with "node is leaving", so that their
// attempts start elsewhere at once, and it leaves the cluster. It returns an error if it cannot start.
func Run(ctx context.Context, cfg Config) (err error) {
	p := &process{cfg: cfg, id: newID()}
	p.log = cfg.Log.With("node", string(p.id))
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop while it waited for something
		}
		return err
	}
	tuneGC(ctx, busy(p.node.Figures))
	<-ctx.Done()
	p.log.Info("leaving", "why", context.Cause(ctx))
	return nil
}

func newID() job.NodeID {
	var b [6]byte
	rand.Read(b[:])
	return job.NodeID("n-" + hex.EncodeToString(b[:]))
}

func (p *process) start(ctx context.Context) (err error) {
	s := p.cfg.Settings
	if p.data, err = openDataDir(s.DataDir, p.id, p.log); err != nil {
		return err
	}
	p.stores = &engine.Stores{Default: s.Storage, S3: s.S3}
	p.engine = &engine.Engine{Log: p.log}
	p.server, err = exchange.Listen(exchange.ServerConfig{
		Addr: s.Exchange.Bind, Self: p.id, Logger: p.log,
		Timings: exchange.Timings{Heartbeat: s.Failure.Keepalive, Dead: s.Failure.PeerTimeout},
	})
	if err != nil {
		return fmt.Errorf("exchange on %s (setting exchange.bind): %w", s.Exchange.Bind, err)
	}
	if p.http, err = listenHTTP(s.HTTP); err != nil {
		return fmt.Errorf("http on %s (setting http.bind): %w", s.HTTP, err)
	}
	p.cluster, err = cluster.Join(ctx, cluster.Config{
		ID: p.id, Bind: s.Cluster.Bind, Advertise: s.Cluster.Advertise, Join: s.Cluster.Join,
		ExchangeAddr: advertised(s.Exchange.Advertise, p.server.Addr()), HTTPAddr: p.http.addr(),
		Slots: s.Slots, Version: p.cfg.Version, Logger: p.log,
		Timings: cluster.Timings{
			ProbeInterval: s.Failure.ProbeInterval, ProbeTimeout: s.Failure.ProbeTimeout, UnseenGrace: s.Failure.UnseenGrace,
		},
	})
	if err != nil {
		return fmt.Errorf("cluster on %s (setting cluster.bind): %w", s.Cluster.Bind, err)
	}
	p.makeNode()
	p.http.serve(p.node, p.cluster, s.Pprof)
	return p.startTemporal(ctx)
}

// advertised is the address that others use: as told, else as bound.
func advertised(told, bound string) string {
	if told == "" {
		return bound
	}
	if host, port, err := net.SplitHostPort(told); err == nil && port == "0" {
		_, port, _ = net.SplitHostPort(bound)
		return net.JoinHostPort(host, port)
	}
	return told
}

func (p *process) makeNode() {
	p.node = node.New(node.Config{
		ID: p.id, Slots: p.cfg.Settings.Slots, DataDir: p.data.path, Exchange: p.server, Compile: p.engine.Compile,
		OpenStore: p.stores.Open, FreeSlots: p.cluster.SetFree, Log: p.log,
		AttemptOpen: func(ctx context.Context, name string, ref job.Ref) (bool, error) {
			if p.client == nil {
				return false, errors.New("not connected to Temporal")
			}
			return activities.AttemptOpen(ctx, p.executions(), name, ref)
		},
	})
}

func (p *process) executions() activities.Executions {
	return activities.Temporal{Client: p.client, Namespace: p.cfg.Temporal.Namespace}
}

// startTemporal connects and polls. A server that does not answer is waited for, with back-off.
func (p *process) startTemporal(ctx context.Context) error {
	opts := p.cfg.Temporal
	opts.Logger = sdkLogger{p.log.With("part", "temporal")}
	resumeAtOnce(&opts)
	c, err := dialTemporal(ctx, opts, p.log, p.http)
	if err != nil {
		return err
	}
	p.client = c
	// A sticky queue makes a workflow wait for its last process; a dead one must not hold up recovery. Nor must a
	// frozen one: every poll that it has open takes a task with it, so there is only one.
	control := sdkworker.New(c, activities.ControlQueue, sdkworker.Options{
		StickyScheduleToStartTimeout: time.Second, WorkerStopTimeout: stopTimeout, MaxConcurrentActivityTaskPollers: 1,
	})
	workflows.Register(control)
	activities.RegisterControl(control, &activities.Control{
		Planner: p.engine, Transactions: p.engine, Members: p.cluster, Executions: p.executions(),
		OpenStore: p.stores.Open, DefaultStorage: p.cfg.Settings.Storage,
	})
	own := sdkworker.New(c, activities.NodeQueue(p.id), sdkworker.Options{
		DisableWorkflowWorker: true, WorkerStopTimeout: stopTimeout,
	})
	activities.RegisterNode(own, &activities.NodeBound{
		Node: nodeActivities{p.node}, Members: p.cluster, Executions: p.executions(), OpenStore: p.stores.Open,
	})
	for _, w := range []sdkworker.Worker{own, control} {
		if err := w.Start(); err != nil {
			return fmt.Errorf("start temporal worker: %w", err)
		}
		p.workers = append(p.workers, w)
	}
	p.http.setReady("")
	p.log.Info("ready", "exchange", p.server.Addr(), "http", p.http.addr(), "slots", p.cfg.Settings.Slots, "temporal", opts.HostPort)
	if p.cfg.Ready != nil {
		p.cfg.Ready(p.id, p.http.addr())
	}
	return nil
}

// stopTimeout is what activities have to report their end when the process leaves.
const stopTimeout = 3 * time.Second

// dialTemporal connects to the server, saying once what is wrong and then waiting for it.
func dialTemporal(ctx context.Context, opts client.Options, log *slog.Logger, h *httpServer) (client.Client, error) {
	wait := 500 * time.Millisecond
	for {
		c, err := dialOnce(ctx, opts)
		if err == nil {
			return c, nil
		}
		why := fmt.Sprintf("cannot reach Temporal at %s (namespace %s): %v", opts.HostPort, opts.Namespace, err)
		h.setReady(why)
		log.Warn(why, "retry_in", wait.String())
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
		wait = min(2*wait, 10*time.Second)
	}
}

func dialOnce(ctx context.Context, opts client.Options) (client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return client.DialContext(ctx, opts)
}

// stopAll stops the workers together: each may wait stopTimeout for its activities.
func stopAll(workers []sdkworker.Worker) {
	var stopping sync.WaitGroup
	for _, w := range workers {
		stopping.Go(w.Stop)
	}
	stopping.Wait()
}

// stop undoes start, in reverse and within the leave timeout.
func (p *process) stop() error {
	limit := 8 * time.Second
	if p.cfg.Settings.Failure.LeaveTimeout > 0 {
		limit = p.cfg.Settings.Failure.LeaveTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var errs []error
	if p.http != nil {
		p.http.setReady("leaving")
	}
	if p.node != nil {
		errs = append(errs, p.node.Leave(ctx))
	}
	stopAll(p.workers)
	if p.engine != nil {
		p.engine.Close()
	}
	if p.cluster != nil {
		errs = append(errs, p.cluster.Leave(ctx))
	}
	if p.client != nil {
		p.client.Close()
	}
	if p.server != nil {
		p.server.Close()
	}
	if p.http != nil {
		errs = append(errs, p.http.close(ctx))
	}
	if p.data != nil {
		errs = append(errs, p.data.close())
	}
	return errors.Join(errs...)
}
