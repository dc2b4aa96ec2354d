package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// maxObject bounds what is read of one control object: a manifest of a large job has some megabytes.
const maxObject = 256 << 20

func readJSON(ctx context.Context, s snapshot.Store, key string, into any) error {
	b, err := s.Get(ctx, key, maxObject)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return failure(TypeDamaged, fmt.Sprintf("%s in %s is damaged: %v", key, s, err), FailureDetails{})
	}
	return nil
}

// createJSON writes v at key if nothing stands there; taken reports that something does.
func createJSON(ctx context.Context, s snapshot.Store, key string, v any) (taken bool, err error) {
	b, err := json.Marshal(v)
	if err != nil {
		return false, job.AsFatal(fmt.Errorf("encode %s: %w", key, err))
	}
	err = s.Create(ctx, key, b)
	if errors.Is(err, snapshot.ErrExists) {
		return true, nil
	}
	return false, err
}

func readDeployment(ctx context.Context, s snapshot.Store, ref job.Ref) (job.Deployment, error) {
	var d job.Deployment
	if err := readJSON(ctx, s, snapshot.Names{UID: ref.UID}.Attempt(ref.Attempt), &d); err != nil {
		return job.Deployment{}, fmt.Errorf("read plan of attempt %s: %w", ref, err)
	}
	if d.Ref != ref {
		return job.Deployment{}, failure(TypeDamaged,
			fmt.Sprintf("plan of attempt %s in %s is damaged: it names attempt %s", ref, s, d.Ref), FailureDetails{})
	}
	return d, nil
}

// readDecision reads what stands at a checkpoint's key and verifies that it belongs there. The error wraps
// snapshot.ErrNotFound while the checkpoint is undecided.
func readDecision(ctx context.Context, s snapshot.Store, n snapshot.Names, id job.CheckpointID) (checkpoint.Manifest, error) {
	b, err := s.Get(ctx, n.Manifest(id), checkpoint.MaxManifestBytes)
	if err != nil {
		return checkpoint.Manifest{}, fmt.Errorf("read checkpoint %d: %w", id, err)
	}
	m, err := checkpoint.DecodeManifest(b)
	if err == nil {
		err = m.Is(n.UID, id)
	}
	if err != nil {
		return checkpoint.Manifest{}, failure(TypeDamaged, fmt.Sprintf("%s in %s: %v", n.Manifest(id), s, err), FailureDetails{})
	}
	return m, nil
}

// decide writes m at its key unless a decision stands there, and returns what stands there then and
// whether it is m.
func decide(ctx context.Context, s snapshot.Store, n snapshot.Names, m checkpoint.Manifest) (checkpoint.Manifest, bool, error) {
	b, err := checkpoint.EncodeManifest(m)
	if err != nil {
		return m, false, job.AsFatal(err)
	}
	err = s.Create(ctx, n.Manifest(m.ID), b)
	if err == nil {
		return m, true, nil
	}
	if !errors.Is(err, snapshot.ErrExists) {
		return m, false, fmt.Errorf("decide checkpoint %d: %w", m.ID, err)
	}
	stands, err := readDecision(ctx, s, n, m.ID)
	if err != nil {
		return m, false, err
	}
	v, err := checkpoint.Obey(stands, m)
	return stands, v.Ours, err
}
