package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// written says whether any of the keys was.
func anyWritten(written map[string]pair, keys ...string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { _, ok := written[k]; return ok })
}

// refuse reports each of the keys that was written.
func (d *decoder) refuse(written map[string]pair, hint, reason string, keys ...string) {
	for _, k := range keys {
		if p, ok := written[k]; ok && p.key == k {
			d.failf(p.keyPlace(), hint, "%s", reason)
		}
	}
}

func (d *decoder) need(written map[string]pair, at Place, hint, reason string, keys ...string) {
	for _, k := range keys {
		if !anyWritten(written, k) {
			d.failf(at.Key(k), hint, "%s", reason)
		}
	}
}

// checkSource checks which keys go together.
func checkSource(d *decoder, s *Source, written map[string]pair, at Place) {
	switch {
	case s.Nexmark != nil:
		d.refuse(written, "remove it", "nexmark brings its own", "format", "schema")
	case anyWritten(written, "kafka", "files"):
		d.need(written, at, "add format: json", "missing", "format")
		d.need(written, at, "add schema: {column: type}", "missing", "schema")
	}
	if s.Kafka == nil && anyWritten(written, "nexmark", "files") {
		d.refuse(written, "remove it", "only records of kafka have it", "key_format", "metadata")
	}
	seen := map[string]bool{}
	for _, f := range s.Schema {
		seen[f.Name] = true
	}
	hasKey := false
	for _, m := range s.Metadata {
		if seen[m.Column] {
			d.failf(m.At, "rename one", "two columns %q", m.Column)
		}
		hasKey = hasKey || m.Kind == MetadataKey
	}
	if s.Kafka != nil && !hasKey {
		d.refuse(written, "add metadata: {column: key}", "no column shows the key", "key_format")
	}
}

// checkStep checks which keys go together.
func checkStep(d *decoder, s *Step, written map[string]pair, at Place) {
	if !anyWritten(written, operators...) {
		d.refuse(written, "add aggregate, or remove it", "no operator uses it", "window", "key_by", "ttl")
	}
	if s.Window != nil {
		d.refuse(written, "remove it", "a window lets go of its state at its end", "ttl")
	}
}

// checkSink checks which keys go together, and fills in what depends on the connector.
func checkSink(d *decoder, s *Sink, written map[string]pair, at Place) {
	switch {
	case s.Print, s.Discard:
		what := "print"
		if s.Discard {
			what = "discard"
			d.refuse(written, "remove it", "discard writes nothing", "format")
		}
		d.refuse(written, "remove it", what+" gives no guarantee", "delivery")
		d.refuse(written, "remove it", what+" takes any rows", "upsert")
		d.refuse(written, "remove it", what+" has no record keys", "key_format")
		if s.Print && s.Format == nil {
			s.Format = &Format{At: at, JSON: &JSONFormat{Timestamps: TimestampsISO}}
		}
		return
	case s.Kafka != nil:
		d.need(written, at, "add format: json", "missing", "format")
		if s.Upsert != nil && s.Kafka.Key != nil {
			d.failf(at.Key("kafka.key"), "remove one", "upsert already is the record key")
		}
		if s.Upsert == nil && s.Kafka.Key == nil {
			d.refuse(written, "add key: [columns] to kafka", "the records have no key", "key_format")
		}
	case s.Files != nil:
		d.need(written, at, "add format: json", "missing", "format")
		d.refuse(written, "remove it", "files only grow", "upsert")
		d.refuse(written, "remove it", "files have no record keys", "key_format")
	}
	if s.Delivery == "" {
		s.Delivery = ExactlyOnce
	}
}

// checkJob fills in what depends on several parts of the job, and checks what only shows across them.
func (d *decoder) checkJob(j *Job) {
	d.checkNotEmpty(j)
	commons := j.commons()
	for _, c := range commons {
		if c.UID == "" {
			c.UID = c.Name
		}
		if c.OnError == "" {
			c.OnError = Fail
		}
		d.fillParallelism(j, c)
	}
	unique := d.checkNames(commons)
	d.checkUIDs(commons)
	d.checkInputs(j)
	if unique {
		d.checkCycles(j)
	}
	d.checkEndpoints(j)
	d.checkGuarantees(j)
}

// section names the part of the spec that a source, step or sink stands in, as in a path.
func (c *Common) section() string { s, _, _ := strings.Cut(c.At.Path, "."); return s }

// commons lists what sources, steps and sinks share, in document order of the sections.
func (j *Job) commons() []*Common {
	var out []*Common
	for i := range j.Sources {
		out = append(out, &j.Sources[i].Common)
	}
	for i := range j.Steps {
		out = append(out, &j.Steps[i].Common)
	}
	for i := range j.Sinks {
		out = append(out, &j.Sinks[i].Common)
	}
	return out
}

func (d *decoder) checkNotEmpty(j *Job) {
	if _, ok := d.places["sources"]; ok && len(j.Sources) == 0 {
		d.failf(d.at("sources"), "add one", "no source")
	}
	if _, ok := d.places["sinks"]; ok && len(j.Sinks) == 0 {
		d.failf(d.at("sinks"), "add one; print: {} shows the rows", "no sink")
	}
}

func (d *decoder) at(path string) Place { return placeOf(d.places, d.file, path) }

func (d *decoder) fillParallelism(j *Job, c *Common) {
	if c.Parallelism == 0 {
		c.Parallelism = j.Parallelism
		if j.MaxParallelism > 0 && j.Parallelism > j.MaxParallelism {
			d.failf(d.at("parallelism"), "lower it; max_parallelism is fixed for the life of the state", "%d is above max_parallelism %d", j.Parallelism, j.MaxParallelism)
		}
		return
	}
	if j.MaxParallelism > 0 && c.Parallelism > j.MaxParallelism {
		d.failf(d.at(c.At.Path+".parallelism"), "lower it; max_parallelism is fixed for the life of the state", "%d is above max_parallelism %d", c.Parallelism, j.MaxParallelism)
	}
}

// checkNames keeps sources, steps and sinks in one namespace and says whether they are.
func (d *decoder) checkNames(commons []*Common) bool {
	seen := map[string]*Common{}
	for _, c := range commons {
		if first := seen[c.Name]; first != nil {
			d.failf(c.At, "rename one", "the name is taken by %s (line %d)", first.At.Path, first.At.Line)
			continue
		}
		seen[c.Name] = c
	}
	return len(seen) == len(commons)
}

func (d *decoder) checkUIDs(commons []*Common) {
	seen := map[string]*Common{}
	for _, c := range commons {
		at := d.at(c.At.Path + ".uid")
		if first := seen[c.UID]; first != nil && first.Name != c.Name {
			d.failf(at, "give each its own uid", "uid %q is also that of %s", c.UID, first.At.Path)
			continue
		}
		seen[c.UID] = c
	}
}

// reads calls f for every input of every step and sink.
func (j *Job) reads(f func(reader *Common, in Input)) {
	for i := range j.Steps {
		for _, in := range j.Steps[i].From {
			f(&j.Steps[i].Common, in)
		}
	}
	for i := range j.Sinks {
		for _, in := range j.Sinks[i].From {
			f(&j.Sinks[i].Common, in)
		}
	}
}

// checkInputs resolves the names that steps and sinks read, and the side outputs.
func (d *decoder) checkInputs(j *Job) {
	all, names := map[string]*Common{}, []string{}
	for _, c := range j.commons() {
		if all[c.Name] == nil {
			all[c.Name] = c
		}
		if c.section() != "sinks" {
			names = append(names, c.Name)
		}
	}
	diverted := map[string]bool{}
	type read struct{ reader, input string }
	seen := map[read]bool{}
	j.reads(func(reader *Common, in Input) {
		if r := (read{reader.At.Path, in.String()}); seen[r] {
			d.failf(in.At, "remove one", "%s is read twice", in)
		} else {
			seen[r] = true
		}
		c := all[in.Name]
		switch {
		case c == nil:
			d.failf(in.At, hintFor(in.Name, names), "no source or step %q", in.Name)
		case in.Output == ErrorsOutput:
			diverted[in.Name] = true
			if c.OnError != Divert {
				d.failf(in.At, fmt.Sprintf("add on_error: divert to %s", c.At.Path), "%s does not divert its errors", in.Name)
			}
		case c.section() == "sinks":
			d.failf(in.At, "read what it reads", "%s is a sink", in.Name)
		}
	})
	for _, c := range j.commons() {
		if c.OnError == Divert && !diverted[c.Name] {
			d.failf(d.at(c.At.Path+".on_error"), fmt.Sprintf("add a sink with from: %s.%s", c.Name, ErrorsOutput), "divert, but nothing reads %s.%s", c.Name, ErrorsOutput)
		}
	}
}

// checkCycles reports each step or sink from which a way leads back to itself, once per cycle.
func (d *decoder) checkCycles(j *Job) {
	inputs := map[string][]string{}
	j.reads(func(reader *Common, in Input) {
		if in.Output != "" || j.Sink(in.Name) == nil {
			inputs[reader.Name] = append(inputs[reader.Name], in.Name)
		}
	})
	const (
		open = 1
		done = 2
	)
	state := map[string]int{}
	var path []string
	var visit func(name string)
	visit = func(name string) {
		state[name] = open
		path = append(path, name)
		for _, in := range inputs[name] {
			switch state[in] {
			case open:
				cycle := slices.Clone(path[slices.Index(path, in):])
				slices.Reverse(cycle)
				d.failf(d.at(d.pathOf(j, in)+".from"), "remove one of the inputs", "a cycle: %s", strings.Join(append(cycle, cycle[0]), " → "))
			case 0:
				visit(in)
			}
		}
		path = path[:len(path)-1]
		state[name] = done
	}
	for _, c := range j.commons() {
		if state[c.Name] == 0 {
			visit(c.Name)
		}
	}
}

func (d *decoder) pathOf(j *Job, name string) string {
	for _, c := range j.commons() {
		if c.Name == name {
			return c.At.Path
		}
	}
	return name
}

// checkEndpoints resolves the connections of Kafka sources and sinks.
func (d *decoder) checkEndpoints(j *Job) {
	for i := range j.Sources {
		if k := j.Sources[i].Kafka; k != nil {
			d.checkEndpoint(j, &k.KafkaEndpoint, j.Sources[i].At.Key("kafka"))
		}
	}
	for i := range j.Sinks {
		if k := j.Sinks[i].Kafka; k != nil {
			d.checkEndpoint(j, &k.KafkaEndpoint, j.Sinks[i].At.Key("kafka"))
		}
	}
}

func (d *decoder) checkEndpoint(j *Job, e *KafkaEndpoint, at Place) {
	var names []string
	for _, c := range j.Connections {
		names = append(names, c.Name)
	}
	path := at.Path
	_, broken := d.places[path+".brokers"] // written, though perhaps wrongly
	_, named := d.places[path+".connection"]
	switch {
	case len(e.Brokers) > 0 || broken || named && e.Connection.Text == "":
	case named:
		if !slices.Contains(names, e.Connection.Text) {
			d.failf(e.Connection.At, hintFor(e.Connection.Text, names), "no connection %q", e.Connection.Text)
		}
	case len(names) == 1:
		e.Connection = Name{Text: names[0], At: d.at(path)}
	case len(names) == 0:
		if _, ok := d.places["connections"]; !ok {
			d.failf(d.at(path), "add brokers, or connections: {main: {kafka: {brokers: […]}}}", "no cluster")
		}
	default:
		d.failf(d.at(path), "add connection: "+strings.Join(names, " or "), "which connection? there are %d", len(names))
	}
}

// checkGuarantees refuses what would weaken a guarantee without being asked to, or lose transactions.
func (d *decoder) checkGuarantees(j *Job) {
	c := &j.Checkpoint
	for i := range j.Sinks {
		s := &j.Sinks[i]
		if s.Delivery == ExactlyOnce && c.Mode == AtLeastOnce {
			d.failf(d.at(s.At.Path+".delivery"), "write delivery: at_least_once, or remove checkpoint.mode",
				"exactly_once, but checkpoint.mode is at_least_once")
		}
		if s.Kafka == nil || s.Kafka.TransactionTimeout == 0 {
			continue
		}
		at := d.at(s.At.Path + ".kafka.transaction_timeout")
		if s.Delivery == AtLeastOnce {
			d.failf(at, "remove it", "at_least_once uses no transactions")
		} else if err := CheckTransactionTimeout(c.Interval, c.Timeout, s.Kafka.TransactionTimeout); err != nil {
			d.failf(at, "raise it, or lower checkpoint.interval or checkpoint.timeout", "%v", err)
		}
	}
}

// CheckTransactionTimeout says whether a transaction that is prepared for a checkpoint outlives it: interval
// + timeout must be well below (at most four fifths of) the transaction's timeout, or the broker may abort
// what the checkpoint promised to commit. A zero argument is unknown and passes.
func CheckTransactionTimeout(interval, timeout, transaction time.Duration) error {
	if interval == 0 || timeout == 0 || transaction == 0 {
		return nil
	}
	if longest := interval/4 + timeout/4; longest > transaction/5 {
		return fmt.Errorf("%s is not well above checkpoint.interval %s + checkpoint.timeout %s",
			formatDuration(transaction), formatDuration(interval), formatDuration(timeout))
	}
	return nil
}
