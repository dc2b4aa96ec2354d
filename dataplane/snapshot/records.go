package snapshot

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/failpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// ReadManifest returns the decision about checkpoint n: manifest, abort record or tombstone. It wraps
// ErrNotFound when there is none yet. A decision that cannot be trusted (checkpoint.ErrTruncated, ErrDamaged,
// ErrVersion, ErrInvalid) is fatal: nobody may go on as if it were not there.
func ReadManifest(ctx context.Context, s Store, uid job.UID, n job.CheckpointID) (checkpoint.Manifest, error) {
	key := Names{UID: uid}.Manifest(n)
	b, err := s.Get(ctx, key, checkpoint.MaxManifestBytes)
	if err != nil {
		return checkpoint.Manifest{}, err
	}
	m, err := checkpoint.DecodeManifest(b)
	if err == nil {
		err = m.Is(uid, n)
	}
	if err != nil {
		return checkpoint.Manifest{}, job.AsFatal(fmt.Errorf("read %s/%s: %w", s, key, err))
	}
	return m, nil
}

// Decide tries to make m the decision about its checkpoint, and returns what the decision is: the first writer
// of the key wins, and the caller obeys (PROTOCOL, "Deciding a checkpoint"). Without an error the verdict has been
// read from the store or written to it by this very call.
func Decide(ctx context.Context, s Store, m checkpoint.Manifest) (checkpoint.Verdict, error) {
	b, err := checkpoint.EncodeManifest(m)
	if err != nil {
		return checkpoint.Verdict{}, job.AsFatal(err)
	}
	err = s.Create(ctx, Names{UID: m.UID}.Manifest(m.ID), b)
	switch {
	case err == nil:
		return checkpoint.Verdict{Ours: true, Kind: m.Kind}, nil
	case !errors.Is(err, ErrExists):
		return checkpoint.Verdict{}, err
	}
	existing, err := ReadManifest(ctx, s, m.UID, m.ID)
	if err != nil {
		return checkpoint.Verdict{}, fmt.Errorf("decide %s: %w", m.Name(), err)
	}
	return checkpoint.Obey(existing, m)
}

// WritePart writes a node's part and returns the reference that the node acks with. A retry finds its own bytes.
func WritePart(ctx context.Context, s Store, p checkpoint.Part) (checkpoint.Ack, error) {
	b, err := checkpoint.EncodePart(p)
	if err != nil {
		return checkpoint.Ack{}, job.AsFatal(err)
	}
	key := Names{UID: p.UID}.Part(p.ID, p.Attempt, p.Node)
	ack := checkpoint.Ack{Node: p.Node, Part: key[len(Names{UID: p.UID}.Prefix()):], SHA256: checkpoint.Digest(b), Stats: p.Stats}
	failpoint.Hit("part.before-put")
	err = s.Create(ctx, key, b)
	if errors.Is(err, ErrExists) {
		if _, err := readPart(ctx, s, p.UID, ack); err != nil {
			return checkpoint.Ack{}, fmt.Errorf("write %s: another one stands there: %w", p.Name(), err)
		}
		return ack, nil
	}
	if err == nil {
		failpoint.Hit("part.after-put")
	}
	return ack, err
}

// ReadPart returns the part that ack names, verified against its digest and identity.
func ReadPart(ctx context.Context, s Store, ref job.Ref, n job.CheckpointID, ack checkpoint.Ack) (checkpoint.Part, error) {
	p, err := readPart(ctx, s, ref.UID, ack)
	if err != nil {
		return checkpoint.Part{}, err
	}
	if p.UID != ref.UID || p.Attempt != ref.Attempt || p.ID != n || p.Node != ack.Node {
		return checkpoint.Part{}, job.AsFatal(fmt.Errorf("ack of node %s names the %s, want checkpoint %d of %s", ack.Node, p.Name(), n, ref))
	}
	return p, nil
}

func readPart(ctx context.Context, s Store, uid job.UID, ack checkpoint.Ack) (checkpoint.Part, error) {
	names := Names{UID: uid}
	key := names.Prefix() + ack.Part
	if names.Parse(key).Kind != string(checkpoint.NodePart) {
		return checkpoint.Part{}, job.AsFatal(fmt.Errorf("ack of node %s names %q, which is no part", ack.Node, ack.Part))
	}
	b, err := s.Get(ctx, key, checkpoint.MaxPartBytes)
	if err != nil {
		return checkpoint.Part{}, err
	}
	if got := checkpoint.Digest(b); got != ack.SHA256 {
		return checkpoint.Part{}, job.AsFatal(fmt.Errorf("read %s/%s: digest %s, acked as %s: %w", s, key, got, ack.SHA256, checkpoint.ErrDamaged))
	}
	p, err := checkpoint.DecodePart(b)
	if err != nil {
		return checkpoint.Part{}, job.AsFatal(fmt.Errorf("read %s/%s: %w", s, key, err))
	}
	return p, nil
}

// MarkCommitted records that every transaction of checkpoint n is committed.
func MarkCommitted(ctx context.Context, s Store, uid job.UID, n job.CheckpointID) error {
	return s.Put(ctx, Names{UID: uid}.Committed(n), fmt.Appendf(nil, "every transaction of checkpoint %d is committed\n", n))
}

// IsCommitted reports whether that has been recorded.
func IsCommitted(ctx context.Context, s Store, uid job.UID, n job.CheckpointID) (bool, error) {
	_, err := s.Get(ctx, Names{UID: uid}.Committed(n), 4096)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
