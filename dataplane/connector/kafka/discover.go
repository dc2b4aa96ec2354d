package kafka

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/job"
)

// startRefresh asks for metadata, and for the start offsets of partitions that are new.
func (r *reader) startRefresh() {
	r.refresh.busy = true
	known := make(map[int32]bool, len(r.parts))
	for id := range r.parts {
		known[id] = true
	}
	r.requests.Go(func() {
		ctx, cancel := context.WithTimeout(r.ctx, 20*time.Second)
		defer cancel()
		var m refreshed
		m.meta, m.err = fetchMetadata(ctx, r.cl, r.cfg.Topic)
		if m.err == nil && !r.cfg.Bounded {
			m.found, m.err = r.discover(ctx, m.meta, known)
		}
		select {
		case r.refresh.result <- m:
		case <-r.ctx.Done():
		}
	})
}

// discover returns splits for partitions of ours that nobody has seen before. They start at their earliest
// record, whatever the start mode: they were empty when the job started.
func (r *reader) discover(ctx context.Context, meta metadata, known map[int32]bool) ([]connector.Split, error) {
	var fresh []int32
	for _, id := range slices.Sorted(maps.Keys(meta.partitions)) {
		if !known[id] && int(id)%r.p == r.index && meta.partitions[id].broker != noLeader {
			fresh = append(fresh, id)
		}
	}
	if len(fresh) == 0 {
		return nil, nil
	}
	listed, err := kadm.NewClient(r.cl).ListStartOffsets(ctx, r.cfg.Topic)
	if err != nil {
		return nil, classify(err, "list offsets of topic", r.cfg.Topic, "Describe")
	}
	var found []connector.Split
	for _, id := range fresh {
		if o, ok := listed.Lookup(r.cfg.Topic, id); ok && o.Err == nil {
			found = append(found, newSplit(id, o.Offset, meta.id))
		}
	}
	return found, nil
}

// learn takes a metadata answer. An error is fatal.
func (r *reader) learn(m refreshed) error {
	now := time.Now()
	r.refresh.busy = false
	r.refresh.due = now.Add(r.cfg.Discover)
	err := m.err
	if err == nil {
		err = r.sameTopic(m.meta.id)
	}
	if err != nil {
		return r.refreshFailed(now, err)
	}
	r.refresh.wrong = time.Time{}
	r.refresh.fails++ // until every partition has a leader
	missing := 0
	for _, p := range r.parts {
		l, ok := m.meta.partitions[p.id]
		if !ok || l.broker == noLeader {
			// Never dropped: the offset is kept until the partition shows again.
			l = leader{broker: noLeader}
			missing++
		}
		p.leader = l
	}
	if missing == 0 {
		r.refresh.fails = 0
	} else {
		r.outage(now, "metadata", fmt.Errorf("%d partitions have no leader", missing))
	}
	for _, split := range m.found {
		if err := r.announce(split, m.meta); err != nil {
			return err
		}
	}
	return nil
}

// announce starts a partition that was found while running.
func (r *reader) announce(split connector.Split, meta metadata) error {
	if err := r.add(split); err != nil {
		return err
	}
	for _, p := range r.parts {
		if p.split.ID == split.ID {
			p.leader = meta.partitions[p.id]
		}
	}
	r.send(connector.Fetch{Split: split, Lag: -1})
	return nil
}

// refreshFailed plans the next metadata request. A topic that stays away or stays another one is fatal, and
// so is what no waiting can mend.
func (r *reader) refreshFailed(now time.Time, err error) error {
	gone := errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, errRecreated)
	if job.ClassOf(err) == job.Fatal && !gone {
		return err
	}
	if !gone {
		r.refresh.wrong = time.Time{}
	} else if r.refresh.wrong.IsZero() {
		r.refresh.wrong = now
	} else if now.Sub(r.refresh.wrong) >= patience(err) {
		return job.AsFatal(err)
	}
	r.refresh.due = now.Add(backOff(r.refresh.fails))
	r.refresh.fails++
	r.outage(now, "metadata", err)
	return nil
}

// patience is how long a topic may be missing, or have another id, before it counts as deleted: brokers learn
// of changes at different times. One that shows another id knows of the new topic or is late itself.
func patience(err error) time.Duration {
	if errors.Is(err, errRecreated) {
		return 3 * time.Second
	}
	return 20 * time.Second
}

// errRecreated says that the topic is another one than the one that the splits are of.
var errRecreated = errors.New("the topic was deleted and created anew")

// sameTopic compares the topic's id with that of the splits.
func (r *reader) sameTopic(id topicID) error {
	for _, p := range r.parts {
		if p.topic != (topicID{}) && id != (topicID{}) && p.topic != id {
			return job.AsFatal(&partitionError{p.split, fmt.Errorf(
				"topic %q, partition %d: %w: its id was %s and is %s; offset %d of the old topic means nothing in the new one",
				r.cfg.Topic, p.id, errRecreated, p.topic, id, p.split.Position)})
		}
	}
	return nil
}

// partitionError is an error about one split.
type partitionError struct {
	split connector.Split
	err   error
}

func (e *partitionError) Error() string { return e.err.Error() }
func (e *partitionError) Unwrap() error { return e.err }

// parseTopicID reverses topicID.String; "" is the zero id.
func parseTopicID(s string) (topicID, error) {
	var id topicID
	if s == "" {
		return id, nil
	}
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("bad topic id %q", s)
	}
	copy(id[:], b)
	return id, nil
}
