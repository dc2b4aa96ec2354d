package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// promise is what the snapshot store says of a transaction.
type promise struct {
	// known is false when no store was asked.
	known bool
	// job is the job's name, as the store knows it; "" when it does not.
	job string
	// survey says what the store has of the job.
	survey snapshot.Survey
	// by is the durable checkpoint whose manifest lists the transaction, as entry; 0 when none does.
	by    job.CheckpointID
	entry checkpoint.Transaction
}

// held reports whether a durable checkpoint promises to commit the transaction.
func (p promise) held() bool { return p.by != 0 }

// String is the promise in a column.
func (p promise) String() string {
	switch {
	case !p.known:
		return "unknown"
	case p.held():
		return fmt.Sprintf("checkpoint %d", p.by)
	case !p.survey.Found:
		return "none (no checkpoint)"
	}
	return "none"
}

// promises asks the store what it says of each transaction.
func (s *system) promises(ctx context.Context, all []found) error {
	if s.store == nil || len(all) == 0 {
		return nil
	}
	names, err := jobNames(ctx, s.store)
	if err != nil {
		return err
	}
	surveys := map[job.UID]snapshot.Survey{}
	for i := range all {
		f := &all[i]
		look, ok := surveys[f.ID.UID]
		if !ok {
			if look, err = snapshot.SurveyJob(ctx, s.store, f.ID.UID, false); err != nil {
				return fmt.Errorf("what is promised cannot be read: %w", err)
			}
			surveys[f.ID.UID] = look
		}
		f.promise = promise{known: true, job: names[f.ID.UID], survey: look}
		// The newest durable manifest lists all that was prepared before it and not known to be committed.
		i := slices.IndexFunc(look.Newest.Transactions, func(t checkpoint.Transaction) bool {
			return t.ID == f.ID.String() && t.ProducerID == f.ProducerID && t.ProducerEpoch == f.ProducerEpoch
		})
		if look.Found && i >= 0 {
			f.promise.by, f.promise.entry = look.Newest.ID, look.Newest.Transactions[i]
		}
	}
	return nil
}

// jobNames maps the uids in the store to the jobs' names.
func jobNames(ctx context.Context, s snapshot.Store) (map[job.UID]string, error) {
	objects, err := s.List(ctx, "jobs/")
	if err != nil {
		return nil, fmt.Errorf("list the jobs of %s: %w", s, err)
	}
	names := map[job.UID]string{}
	for _, o := range objects {
		f := strings.Split(o.Key, "/")
		if len(f) != 3 {
			continue
		}
		if name, err := job.Unescape(f[1]); err == nil {
			names[job.UID(f[2])] = name
		}
	}
	return names, nil
}
