package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
	"github.com/weirstream/weir/tests/real"
)

// views: what a running job shows through the temporal CLI and at /metrics.
func views(d day) {
	name := d.flowing("seen")
	d.Cluster.Await("a checkpoint is committed", 30*time.Second, func() bool {
		st, err := d.Cluster.Status(name)
		return err == nil && st.Succeeded > 1
	})
	for query, want := range map[string][]string{
		"status":      {`"job":"seen"`, `"state":"running"`, `"records":1000`, `"lag_records":0`, `"summary":"in → out, sum`},
		"checkpoints": {`"result":"committed"`, `"took":"`, `"uploaded":"`},
		"graph":       {`"vertices"`, "totals", "kafka source"},
		"attempts":    {`"attempt":1`, `"nodes"`},
	} {
		got := d.CLI("workflow", "query", "--workflow-id", name, "--type", query)
		for _, w := range want {
			if !strings.Contains(compactJSON(got), w) {
				d.Errorf("query %s does not show %s:\n%s", query, w, got)
			}
		}
	}
	all := ""
	for _, w := range d.Workers {
		_, body := real.Get(d.Ctx, w.HTTP()+"/metrics")
		all += body
	}
	for _, metric := range []string{
		"weir_records_total", "weir_emitted_total", "weir_lag_records", "weir_late_total", "weir_skipped_total",
		"weir_checkpoint_age_seconds", "weir_checkpoint_duration_seconds", "weir_checkpoint_id", "weir_attempt",
	} {
		if !strings.Contains(all, metric+`{job="seen"`) {
			d.Errorf("/metrics has no %s", metric)
		}
	}
	if sum := sumOf(all, `weir_records_total{job="seen",subtask="\d",vertex="in"}`); sum != 1000 {
		d.Errorf("weir_records_total of the source is %d, want 1000", sum)
	}
	if sum := sumOf(all, `weir_lag_records{job="seen"[^}]*}`); sum != 0 {
		d.Errorf("weir_lag_records is %d with everything read", sum)
	}
	d.cancel(name)
}

func compactJSON(s string) string {
	return regexp.MustCompile(`\s*\n\s*|: +`).ReplaceAllStringFunc(s, func(m string) string { return strings.TrimSpace(m) })
}

// sumOf adds the values of the series that a pattern matches.
func sumOf(metrics, pattern string) (sum int) {
	for _, m := range regexp.MustCompile(`(?m)^`+pattern+` (\d+)$`).FindAllStringSubmatch(metrics, -1) {
		var n int
		if _, err := fmt.Sscan(m[1], &n); err != nil {
			panic(err) // it matched \d+
		}
		sum += n
	}
	return sum
}

// secrets: passwords from the environment appear in no log, no history, no object and no metric, neither when
// they are right nor, as in noRights, when they are refused.
func secrets(d day) {
	fake := kafkatest.Fake(d.T, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "weir", canarySASL), kfake.SeedTopics(1, "secured-in", "secured-out"))
	d.start(strings.Replace(passThrough("secured", ""), `brokers: ["${env:KAFKA}"]`, fmt.Sprintf(
		`brokers: [%q], sasl: {mechanism: scram-sha-256, user: weir, password: "${env:CANARY_SASL}"}`, fake.ListenAddrs()[0]), 1))
	d.AwaitState("secured", "running", 30*time.Second)
	d.Cluster.Await("a checkpoint", 30*time.Second, func() bool {
		st, err := d.Cluster.Status("secured")
		return err == nil && st.Succeeded > 0
	})
	where := map[string][]byte{}
	d.pages(where)
	d.histories(where, "secured")
	d.cancel("secured")
	d.files(where)
	for _, secret := range []string{canarySASL, canaryWrong, real.SecretKey} {
		for place, text := range where {
			for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))} {
				if bytes.Contains(text, []byte(form)) {
					d.Errorf("%s holds the secret %s", place, secret)
				}
			}
		}
	}
	d.Logf("looked at %d places", len(where))
}

// pages collects what the workers' HTTP servers show.
func (d day) pages(where map[string][]byte) {
	d.Helper()
	for _, w := range d.Workers {
		for _, page := range []string{"/metrics", "/attempts", "/members", "/readyz"} {
			code, body := real.Get(d.Ctx, w.HTTP()+page)
			if code != 200 {
				d.Errorf("%s of worker %d: %d", page, w.Index, code)
			}
			where[w.HTTP()+page] = []byte(body)
		}
	}
}

// histories collects those of a job's workflows and of the jobs that are named. Payloads are text there; in Temporal's
// database they may be compressed.
func (d day) histories(where map[string][]byte, job string) {
	d.Helper()
	var list []struct {
		Execution struct {
			WorkflowID string `json:"workflowId"`
		}
	}
	out := d.CLI("workflow", "list", "--query", fmt.Sprintf("WorkflowId STARTS_WITH %q", job), "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) < 3 {
		d.Fatalf("%d workflows of job %s: %v", len(list), job, err)
	}
	for _, w := range list[max(0, len(list)-6):] { // the job and its first children
		where["history of "+w.Execution.WorkflowID] = []byte(d.History(w.Execution.WorkflowID))
	}
}

// files collects logs, objects and Temporal's database.
func (d day) files(where map[string][]byte) {
	d.Helper()
	before := len(where)
	err := filepath.WalkDir(d.Dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // local state comes and goes
		}
		if b, err := os.ReadFile(p); err == nil {
			where[p] = b
		}
		return nil
	})
	if n := len(where) - before; err != nil || n < 15 {
		d.Fatalf("%d files of logs, objects and Temporal's database: %v", n, err)
	}
}
