package cli

import (
	"maps"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirstream/weir/config"
)

func TestTopicsOfJobs(t *testing.T) {
	topics, err := parseTopics([]string{"moves:7", "other"})
	if err != nil {
		t.Fatal(err)
	}
	j, err := config.ParseJob("job.yaml", []byte(goodSpec))
	if err != nil {
		t.Fatal(err)
	}
	addTopics(topics, j)
	if want := map[string]int32{"moves": 7, "other": devPartitions, "out": devPartitions}; !maps.Equal(topics, want) {
		t.Errorf("got %v, want %v", topics, want)
	}
}

// TestTopicCommands writes and reads as the README does.
func TestTopicCommands(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	t.Setenv("KAFKA", c.ListenAddrs()[0])
	for range 2 { // what exists is left alone
		if got := weir(t, "", "topic", "create", "moves:3", "out"); got.status != 0 {
			t.Fatalf("create: got %+v", got)
		}
	}
	in := `{"account":"a","n":1}` + "\n" + `{"account":"a","n":2}` + "\n" + `{"account":"b","n":3}` + "\n"
	if got := weir(t, in, "topic", "write", "moves", "--key", "account"); got.status != 0 || !strings.Contains(got.err, "wrote 3 records") {
		t.Fatalf("write: got %+v", got)
	}
	got := weir(t, "", "topic", "read", "moves", "--idle", "2s")
	for line := range strings.Lines(in) {
		if !strings.Contains(got.out, line) {
			t.Errorf("read: got %q, want all of %q", got.out, in)
		}
	}
	if strings.Index(got.out, `"n":1`) > strings.Index(got.out, `"n":2`) {
		t.Errorf("read: got %q, want the records of a key in order", got.out)
	}
	if got := weir(t, "{}\n", "topic", "write", "moves", "--key", "account"); got.status != 1 || !strings.Contains(got.err, `no field "account"`) {
		t.Errorf("write without the key: got %+v", got)
	}
}
