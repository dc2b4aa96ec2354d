package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Options say what a stack consists of. The zero value of a field means the embedded default.
type Options struct {
	// Dir holds logs, databases and local state; required.
	Dir string
	// Workers is the number of worker processes (3), Slots that of each (2).
	Workers, Slots int
	// TemporalPort, UIPort and KafkaPort are taken if they are free, else it is an error; 0 takes free ones.
	TemporalPort, UIPort, KafkaPort int
	// Brokers are those of a Kafka cluster elsewhere; empty starts one in this process.
	Brokers []string
	// Storage and S3Endpoint name a snapshot store elsewhere; empty starts one in this process.
	Storage, S3Endpoint string
	// Binary is the weir command for the workers; this program itself if empty.
	Binary string
	// Env is added to the workers' environment.
	Env []string
	// Progress is told, in words, what is being started. Optional.
	Progress func(string)
}

// Stack is a running cluster on this machine.
type Stack struct {
	Temporal *Temporal
	Workers  []*Worker
	Brokers  []string
	Storage  string
	kafka    *kfake.Cluster
	s3       *S3
	stopOnce sync.Once
	stopErr  error
}

// Start starts every part and returns when all are ready. On an error nothing is left running.
func Start(ctx context.Context, o Options) (_ *Stack, err error) {
	s := &Stack{Brokers: o.Brokers, Storage: o.Storage}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Workers == 0 {
		o.Workers = 3
	}
	if o.Slots == 0 {
		o.Slots = 2
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	free := &ports{}
	if err := fixPorts(&o, free); err != nil {
		return nil, err
	}
	o.Progress("Temporal")
	if s.Temporal, err = StartTemporal(ctx, o.Dir, o.TemporalPort, o.UIPort); err != nil {
		return nil, err
	}
	if err := s.startServices(&o); err != nil {
		return nil, err
	}
	o.Progress(fmt.Sprintf("%d workers", o.Workers))
	return s, s.startWorkers(ctx, o, free)
}

// fixPorts checks the ports that were asked for and finds free ones for the others.
func fixPorts(o *Options, free *ports) error {
	for _, p := range []struct {
		port       *int
		what, flag string
	}{{&o.TemporalPort, "Temporal", "temporal-port"}, {&o.UIPort, "the Temporal UI", "ui-port"}, {&o.KafkaPort, "Kafka", "kafka-port"}} {
		if *p.port != 0 {
			if err := free.take(*p.port, p.what, p.flag); err != nil {
				return err
			}
			continue
		}
		port, err := free.pick()
		if err != nil {
			return err
		}
		*p.port = port
	}
	return nil
}

func (s *Stack) startServices(o *Options) (err error) {
	if len(o.Brokers) == 0 {
		o.Progress("Kafka")
		s.kafka, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(o.KafkaPort), kfake.DefaultNumPartitions(2))
		if err != nil {
			return fmt.Errorf("embedded kafka: %w", err)
		}
		s.Brokers = s.kafka.ListenAddrs()
	}
	if o.Storage == "" {
		o.Progress("S3")
		if s.s3, err = StartS3(); err != nil {
			return err
		}
		o.S3Endpoint = s.s3.Endpoint()
		s.Storage = "s3://" + Bucket + "/jobs"
		o.Env = append(o.Env, "AWS_ACCESS_KEY_ID=weir", "AWS_SECRET_ACCESS_KEY=weir-local")
	}
	return nil
}

func (s *Stack) startWorkers(ctx context.Context, o Options, free *ports) error {
	// Temporal's configuration file is the user's; an empty one keeps the workers on the server started here.
	profile := filepath.Join(o.Dir, "temporal.toml")
	if err := os.WriteFile(profile, nil, 0o600); err != nil {
		return err
	}
	env := append([]string{"KAFKA=" + s.Brokers[0], "TEMPORAL_CONFIG_FILE=" + profile}, o.Env...)
	gossip, err := free.pickN(o.Workers)
	if err != nil {
		return err
	}
	httpPorts, err := free.pickN(o.Workers)
	if err != nil {
		return err
	}
	for i := range gossip {
		w, err := newWorker(i, WorkerOptions{
			Binary: o.Binary, Dir: o.Dir, Slots: o.Slots, Temporal: s.Temporal.Addr(), Storage: s.Storage,
			S3Endpoint: o.S3Endpoint, Env: env,
		}, gossip, httpPorts[i])
		if err != nil {
			return err
		}
		s.Workers = append(s.Workers, w)
		if err := w.proc.start(); err != nil {
			return err
		}
	}
	for _, w := range s.Workers {
		if err := w.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends every part, workers first.
func (s *Stack) Stop() error {
	s.stopOnce.Do(func() {
		var all sync.WaitGroup
		for _, w := range s.Workers {
			all.Go(func() { w.Stop(10 * time.Second) })
		}
		all.Wait()
		if s.Temporal != nil {
			s.Temporal.Stop()
		}
		if s.kafka != nil {
			s.kafka.Close()
		}
		if s.s3 != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			s.stopErr = s.s3.Stop(ctx)
		}
	})
	return s.stopErr
}
