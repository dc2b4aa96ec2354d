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

// maxObject bounds what is read of one control object: a plan of a large job has a megabyte or two.
const maxObject = 64 << 20

func readJSON(ctx context.Context, s snapshot.Store, key string, into any) error {
	b, err := s.Get(ctx, key, maxObject)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s in %s: %w: %w", key, s, checkpoint.ErrDamaged, err)
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
		return job.Deployment{}, fmt.Errorf("plan of attempt %s in %s: %w: it names attempt %s", ref, s, checkpoint.ErrDamaged, d.Ref)
	}
	return d, nil
}

// standing makes m the decision about its checkpoint unless there is one, and returns what stands then and
// whether it is m.
func standing(ctx context.Context, s snapshot.Store, m checkpoint.Manifest) (checkpoint.Manifest, bool, error) {
	v, err := snapshot.Decide(ctx, s, m)
	if err != nil {
		return m, false, fmt.Errorf("decide checkpoint %d: %w", m.ID, err)
	}
	if v.Ours {
		return m, true, nil
	}
	m, err = snapshot.ReadManifest(ctx, s, m.UID, m.ID)
	return m, false, err
}

// isDamaged reports whether an object was read whole and found wrong.
func isDamaged(err error) bool {
	for _, e := range []error{checkpoint.ErrTruncated, checkpoint.ErrDamaged, checkpoint.ErrVersion, checkpoint.ErrInvalid, checkpoint.ErrTooLarge} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func isNotFound(err error) bool { return errors.Is(err, snapshot.ErrNotFound) }
