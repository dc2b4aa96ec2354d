package failpoint

import "slices"

// Point is a step at which a process can be stopped.
type Point struct {
	Name string
	// Doc says what has happened at the point and what has not.
	Doc string
	// Errs: the call site can return an injected error (action error): there it stands for a lost reply.
	Errs bool
	// Each: the point stands for one step of many things, told apart by name: write name[instance] for one.
	Each bool
}

// points is the one table of them, in the order of a checkpoint's life and then of a recovery's. A test
// compares it with the calls in the code.
var points = []Point{
	{Name: "barrier.before", Doc: "a node was ordered to take a checkpoint; its sources have not seen the barrier"},
	{Name: "snapshot.frozen", Doc: "a subtask has frozen its state and passed the barrier on; nothing of it is uploaded"},
	{Name: "upload.before", Doc: "a state file is about to be uploaded"},
	{Name: "upload.after", Doc: "a state file is stored; no part names it yet"},
	{Name: "precommit.before-flush", Doc: "the barrier has ended a sink's transaction; its records may be on their way"},
	{Name: "precommit.after-flush", Doc: "every record of the transaction is acknowledged; it is prepared, and only this process knows"},
	{Name: "part.before-put", Doc: "the node's share is complete; its part object is not written"},
	{Name: "part.after-put", Doc: "the node's part object is stored; the ack is not given"},
	{Name: "commit.before-manifest-put", Doc: "all acks are in and verified; nothing stands at the manifest's key"},
	{Name: "commit.after-manifest-put", Doc: "the checkpoint is decided, and only the store knows"},
	{Name: "commit.manifest-reply-lost", Doc: "the manifest was written, the writer is told that the PUT failed", Errs: true},
	{Name: "abort.before-record-put", Doc: "an abort record is about to be written, perhaps while the manifest is"},
	{Name: "abort.after-record-put", Doc: "the abort has been decided or overruled, and only the store knows"},
	{Name: "refusal.before-record-put", Doc: "a checkpoint with every ack has a damaged part or an expiring transaction; its abort record is not written"},
	{Name: "refusal.after-record-put", Doc: "the refused checkpoint is decided, and only the store knows"},
	{Name: "endtxn.before", Doc: "a prepared transaction of a durable checkpoint is about to be ended"},
	{Name: "endtxn.after", Doc: "the coordinator has ended the transaction; nothing else knows"},
	{Name: "endtxn.reply-lost", Doc: "the coordinator has ended the transaction, the caller is told that the request failed", Errs: true},
	{Name: "marker.before-put", Doc: "every transaction of a checkpoint is committed; its committed marker is not written"},
	{Name: "marker.after-put", Doc: "the committed marker stands; no workflow knows"},
	{Name: "claim.before-put", Doc: "a new attempt is about to claim the id after the newest decided checkpoint"},
	{Name: "claim.after-put", Doc: "the claim stands; the attempts before are not asked to end"},
	{Name: "recover.before-sinks", Doc: "the old attempt's nodes were told to stop, the new number is claimed; no transaction is touched"},
	{Name: "leftover.before-abort", Doc: "an open transaction of an older attempt was found and is about to be aborted"},
	{Name: "leftover.after-abort", Doc: "that transaction is aborted and its producer fenced"},
	{Name: "activity.before-completion", Doc: "an activity has done its work; the server does not know", Each: true},
	{Name: "activity.after-completion", Doc: "the server has an activity's result; the workflow has not acted on it", Each: true},
}

// Points lists every point.
func Points() []Point { return slices.Clone(points) }

func find(name string) (Point, bool) {
	i := slices.IndexFunc(points, func(p Point) bool { return p.Name == name })
	if i < 0 {
		return Point{}, false
	}
	return points[i], true
}
