package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// part identifies a part file. Its name is the id of its transaction.
type part struct {
	uid     job.UID
	sink    string
	subtask int
	attempt job.Attempt
	// number is the checkpoint whose barrier ended the part; of a part that is being written, its place among
	// those of its writer.
	number int64
}

const (
	prefix = "part-"
	suffix = ".jsonl"

	openSuffix     = ".open"
	preparedSuffix = ".prepared"
	markerSuffix   = ".committed"
)

// group is the common start of the names of a job's parts.
func group(uid job.UID) string { return prefix + string(uid) + "-" }

// name is the part's visible name.
func (p part) name() string {
	return fmt.Sprintf("%s%s-%d-%d-%d%s", group(p.uid), job.Escape(p.sink), p.subtask, p.attempt, p.number, suffix)
}

// parsePart reverses name. It accepts nothing that name cannot have made.
func parsePart(name string) (p part, err error) {
	fail := func() (part, error) { return part{}, fmt.Errorf("files: %q is not the name of a part", name) }
	body, has := strings.CutPrefix(name, prefix)
	if !has {
		return fail()
	}
	if body, has = strings.CutSuffix(body, suffix); !has {
		return fail()
	}
	uid, body, has := strings.Cut(body, "-")
	if !has {
		return fail()
	}
	var numbers [3]int64
	for i := len(numbers) - 1; i >= 0; i-- {
		k := strings.LastIndexByte(body, '-')
		if k < 0 {
			return fail()
		}
		if numbers[i], err = strconv.ParseInt(body[k+1:], 10, 64); err != nil || numbers[i] < 0 {
			return fail()
		}
		body = body[:k]
	}
	sink, err := job.Unescape(body)
	if err != nil {
		return fail()
	}
	p = part{uid: job.UID(uid), sink: sink, subtask: int(numbers[0]), attempt: job.Attempt(numbers[1]), number: numbers[2]}
	if p.name() != name || checkUID(p.uid) != nil {
		return fail()
	}
	return p, nil
}

// checkUID refuses what would make names ambiguous or lead out of the directory.
func checkUID(uid job.UID) error {
	if uid == "" || strings.ContainsAny(string(uid), "-.") || job.Escape(string(uid)) != string(uid) {
		return job.AsFatal(fmt.Errorf("files: uid %q cannot be part of a file's name", uid))
	}
	return nil
}

// directory is where parts live.
type directory string

func (d directory) open(p part) string     { return d.hidden(p, openSuffix) }
func (d directory) prepared(p part) string { return d.hidden(p, preparedSuffix) }
func (d directory) marker(p part) string   { return d.hidden(p, markerSuffix) }
func (d directory) visible(p part) string  { return filepath.Join(string(d), p.name()) }

func (d directory) hidden(p part, state string) string {
	return filepath.Join(string(d), "."+p.name()+state)
}

// list returns the hidden files of uid that are in one of the states, by state.
func (d directory) list(uid job.UID, states ...string) (map[string][]part, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, err
	}
	found := map[string][]part{}
	for _, e := range entries {
		name, has := strings.CutPrefix(e.Name(), ".")
		if !has || !strings.HasPrefix(name, group(uid)) {
			continue
		}
		for _, state := range states {
			if name, has := strings.CutSuffix(name, state); has {
				p, err := parsePart(name)
				if err != nil {
					return nil, job.AsFatal(fmt.Errorf("%w: what is it doing in %s?", err, d))
				}
				found[state] = append(found[state], p)
			}
		}
	}
	return found, nil
}

// sync makes the directory's entries durable.
func (d directory) sync() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		_ = f.Close() // the sync's error says more
		return err
	}
	return f.Close()
}

// data is Transaction.Data.
type data struct {
	Size int64 `json:"size"`
}

// transaction describes a part as a manifest does, as far as its name tells.
func (p part) transaction(id string) checkpoint.Transaction {
	return checkpoint.Transaction{
		Sink: p.sink, Connector: Connector, Subtask: p.subtask, ID: id, Checkpoint: job.CheckpointID(p.number),
	}
}

// Connector is the kind of the sink's transactions.
const Connector = "files"
