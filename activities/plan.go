package activities

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// PlanJob validates the spec, refuses a start that would forget checkpoints, mints the job's uid (or finds
// that of the life to go on with), and writes the spec object and the job's name into the store.
func (c *Control) PlanJob(ctx context.Context, in PlanJobInput) (Planned, error) {
	defer beat(ctx, nil)()
	start, err := startOptions(in.Options)
	if err != nil {
		return Planned{}, failureUncut(TypeInvalidSpec, "the options (second input) are not valid: "+err.Error())
	}
	plan, err := c.plan(ctx, in)
	if err != nil {
		return Planned{}, err
	}
	p := Planned{
		Job:     Job{Name: in.Name, Run: in.Run, Storage: plan.Options.Storage},
		Options: plan.Options, Graph: forPeople(plan.Graph), Slots: plan.Graph.MaxVertexParallelism(),
		Bounded: plan.Bounded, Summary: Cut(plan.Summary), Warnings: fewWarnings(plan.Warnings), Start: start,
	}
	store, err := c.OpenStore(ctx, p.Job.Storage)
	if err != nil {
		return Planned{}, classified(fmt.Errorf("open storage %s: %w", p.Job.Storage, err))
	}
	life, err := chooseLife(ctx, store, in, start.From, plan.Graph)
	if err != nil {
		return Planned{}, classified(err)
	}
	p.Job.UID = life
	digest := sha256.Sum256(in.Spec)
	p.Job.Spec = snapshot.Names{UID: life}.Spec(hex.EncodeToString(digest[:]))
	if _, err := createJSON(ctx, store, p.Job.Spec, SpecObject{Spec: in.Spec, Plan: plan}); err != nil {
		return Planned{}, classified(fmt.Errorf("write spec of job %s: %w", in.Name, err))
	}
	if _, err := createJSON(ctx, store, snapshot.JobUID(in.Name, life), nameRecord{in.Name, in.Run}); err != nil {
		return Planned{}, classified(fmt.Errorf("record name of job %s: %w", in.Name, err))
	}
	return p, nil
}

// startOptions decodes strictly: a misspelt "from" must not start a job from nothing.
func startOptions(raw json.RawMessage) (o StartOptions, err error) {
	if len(raw) == 0 {
		return o, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return o, fmt.Errorf(`%w; known are "from" and "history_limit"`, err)
	}
	switch o.From {
	case "", FromLatest, FromFresh:
		return o, nil
	}
	return o, fmt.Errorf(`"from" is %q; it can be "latest" or "fresh"`, o.From)
}

// nameRecord is what stands at jobs/<name>/<uid>.
type nameRecord struct {
	Name string `json:"name"`
	Run  string `json:"run"`
}

func (c *Control) plan(ctx context.Context, in PlanJobInput) (Plan, error) {
	plan, err := c.Planner.Plan(ctx, in.Spec)
	var mistakes *SpecError
	if errors.As(err, &mistakes) {
		return Plan{}, invalid(mistakes.Problems)
	}
	if err != nil {
		return Plan{}, classified(fmt.Errorf("plan job %s: %w", in.Name, err))
	}
	if plan.Options.Storage == "" {
		plan.Options.Storage = c.DefaultStorage
	}
	nodes := 0
	for _, n := range c.Members.Nodes() {
		if n.Slots > 0 {
			nodes++
		}
	}
	nodes = min(nodes, plan.Graph.MaxVertexParallelism())
	if problems := checkOptions(plan.Options, nodes); len(problems) > 0 {
		return Plan{}, invalid(problems)
	}
	return plan, nil
}

// maxProblems bounds the text of a refusal, which Temporal would cut in the middle of a line.
const maxProblems = 3500

func invalid(problems []string) error {
	var b strings.Builder
	for i, p := range problems {
		if b.Len()+len(p) > maxProblems {
			fmt.Fprintf(&b, "\n… and %d more", len(problems)-i)
			break
		}
		b.WriteString("\n" + p)
	}
	noun := "problems"
	if len(problems) == 1 {
		noun = "problem"
	}
	return failureUncut(TypeInvalidSpec, fmt.Sprintf("the job spec has %d %s:%s", len(problems), noun, b.String()))
}

// chooseLife returns the uid under which the job will run. A name whose newest life has checkpoints and has
// not reached its end is refused unless the user says what to do with them.
func chooseLife(ctx context.Context, s snapshot.Store, in PlanJobInput, from string, g job.Graph) (job.UID, error) {
	minted := mint(in.Run)
	last, err := newestLife(ctx, s, in.Name, minted)
	if err != nil {
		return "", err
	}
	if from == FromFresh || last == "" && from == "" {
		return minted, nil
	}
	if last == "" {
		return "", failure(TypeRefused, fmt.Sprintf("job %q has no earlier run in %s to go on from", in.Name, s), FailureDetails{})
	}
	look, err := snapshot.SurveyJob(ctx, s, last, false)
	if err != nil {
		return "", err
	}
	switch {
	case from == FromLatest && !look.Found:
		return "", failure(TypeRefused, fmt.Sprintf("job %q has no checkpoint in %s to go on from", in.Name, s), FailureDetails{})
	case from == FromLatest:
		return last, sameGraph(in.Name, look.Newest, g)
	case look.Found && look.Newest.ID > 0 && !look.Newest.Final:
		return "", failure(TypeRefused, fmt.Sprintf("job %q has checkpoints of an unfinished run (uid %s, newest %d, in %s): "+
			`start it with the options {"from": "latest"} to go on from there, or {"from": "fresh"} to leave them and begin again`,
			in.Name, last, look.Newest.ID, s), FailureDetails{})
	}
	return minted, nil
}

// mint derives a job's uid from the run id of its first run, which the server draws at random: a retried
// activity mints the same one.
func mint(run string) job.UID {
	sum := sha256.Sum256([]byte(run))
	return job.UID(hex.EncodeToString(sum[:8]))
}

// newestLife is the uid that was recorded last under the job's name, other than not.
func newestLife(ctx context.Context, s snapshot.Store, name string, not job.UID) (job.UID, error) {
	objects, err := s.List(ctx, snapshot.JobUIDs(name))
	if err != nil {
		return "", fmt.Errorf("list runs of job %s: %w", name, err)
	}
	objects = slices.DeleteFunc(objects, func(o snapshot.Object) bool { return strings.HasSuffix(o.Key, "/"+string(not)) })
	if len(objects) == 0 {
		return "", nil
	}
	last := slices.MaxFunc(objects, func(a, b snapshot.Object) int { return a.Modified.Compare(b.Modified) })
	return job.UID(strings.TrimPrefix(last.Key, snapshot.JobUIDs(name))), nil
}

// sameGraph refuses to restore a checkpoint into another graph than the one that wrote it.
func sameGraph(name string, m checkpoint.Manifest, g job.Graph) error {
	if m.Graph == nil || m.Graph.Digest() == g.Digest() {
		return nil
	}
	return failure(TypeRefused, fmt.Sprintf("job %q cannot go on from checkpoint %d with this spec: its operators, parallelism or "+
		"their settings differ from those that wrote the checkpoint; start it with the earlier spec, or from \"fresh\"",
		name, m.ID), FailureDetails{})
}

// StartPosition writes chk-0, the start and end offsets of every source, unless it stands already: they
// are resolved once in the life of a job.
func (c *Control) StartPosition(ctx context.Context, j Job) error {
	s, err := c.store(ctx, j)
	if err != nil {
		return classified(err)
	}
	defer beat(ctx, nil)()
	_, err = snapshot.ReadManifest(ctx, s, j.UID, 0)
	if err == nil {
		return nil
	}
	if !isNotFound(err) {
		return classified(err)
	}
	prog, err := c.program(ctx, s, j)
	if err != nil {
		return classified(err)
	}
	states, err := c.Planner.Start(ctx, prog.Spec)
	if err != nil {
		return classified(err)
	}
	m, err := checkpoint.NewStart(j.UID, prog.Plan.Graph, states)
	if err != nil {
		return classified(job.AsFatal(err))
	}
	if _, err := snapshot.Decide(ctx, s, m); err != nil {
		return classified(fmt.Errorf("write start position of job %s: %w", j.Name, err))
	}
	return nil
}

// maxWarnings bounds the warnings that a StreamJob carries.
const maxWarnings = 20

// fewWarnings leaves out what is too much to pass through Temporal with every run.
func fewWarnings(all []string) []string {
	var out []string
	for i, w := range all {
		if i == maxWarnings {
			return append(out, fmt.Sprintf("… and %d more warnings; weir job validate shows all", len(all)-i))
		}
		out = append(out, Cut(w))
	}
	return out
}

// maxGraph bounds the graph that a StreamJob carries for its queries.
const maxGraph = 64 << 10

// forPeople drops what is longest from a graph that is too large to be carried through Temporal; the whole
// of it stands in the spec object.
func forPeople(g job.Graph) job.Graph {
	for _, cut := range []func(*job.Operator){
		func(*job.Operator) {},
		func(o *job.Operator) { o.Detail = "" },
		func(o *job.Operator) { o.State = "" },
	} {
		g = withoutText(g, cut)
		if b, err := json.Marshal(g); err == nil && len(b) <= maxGraph {
			return g
		}
	}
	return job.Graph{MaxParallelism: g.MaxParallelism}
}

func withoutText(g job.Graph, cut func(*job.Operator)) job.Graph {
	g.Vertices = slices.Clone(g.Vertices)
	for i := range g.Vertices {
		g.Vertices[i].Operators = slices.Clone(g.Vertices[i].Operators)
		for k := range g.Vertices[i].Operators {
			cut(&g.Vertices[i].Operators[k])
		}
	}
	return g
}
