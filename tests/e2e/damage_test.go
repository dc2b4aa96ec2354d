package e2e

import (
	"crypto/rand"
	"encoding/json"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/dataplane/connector/kafka/kafkatest"
	"github.com/weirstream/weir/tests/real"
)

// noise: strangers who connect to the exchange and gossip ports and send garbage, or a frame that announces
// more than any may hold, do not disturb a running job.
func noise(d day) {
	name := d.flowing("disturbed")
	_, body := real.Get(d.Ctx, d.Workers[0].HTTP()+"/members")
	var members []struct{ Status, Exchange, Gossip string }
	if err := json.Unmarshal([]byte(body), &members); err != nil || len(members) < 3 {
		d.Fatalf("members: %v: %s", err, body)
	}
	members = slices.DeleteFunc(members, func(m struct{ Status, Exchange, Gossip string }) bool { return m.Status != "alive" })
	garbage := make([]byte, 64<<10)
	rand.Read(garbage)
	long := append([]byte("WEIR"), slices.Repeat([]byte{0xff}, 64)...)
	var strangers []string
	for _, m := range members {
		for _, text := range [][]byte{garbage, long, []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")} {
			strangers = append(strangers, d.shout(m.Exchange, text))
			d.shout(m.Gossip, text)
		}
	}
	d.Cluster.Await("the workers' logs name every stranger", 20*time.Second, func() bool {
		logs := d.logs()
		return !slices.ContainsFunc(strangers, func(addr string) bool {
			return !regexp.MustCompile(`msg="refused a connection" .*addr=` + regexp.QuoteMeta(addr) + ` error=`).MatchString(logs)
		})
	})
	produce(d.T, d.Brokers, name+"-in", 3, numbered(1000, 500, 10)...)
	follow(d.T, d.Brokers, name+"-out").await(1500, 30*time.Second)
	if st, err := d.Cluster.Status(name); err != nil || st.Restarts > 0 {
		d.Errorf("the job was restarted %d times (%v): %s", st.Restarts, err, st.LastFailure)
	}
	d.cancel(name)
	d.once(name, 1500)
}

// shout sends text to an address, keeps the connection open until the test ends, and returns where it comes from.
func (d day) shout(addr string, text []byte) string {
	d.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { conn.Close() })
	_, _ = conn.Write(text) // it may be refused at the first byte
	return conn.LocalAddr().String()
}

// damage: a flipped bit in a state file and a truncated manifest stop the job with the object's name. It does not
// fall back, and with the object repaired it goes on without loss.
func damage(d day) {
	name := d.flowing("damaged")
	spec := flowSpec(name)
	st, err := d.Cluster.Status(name)
	if err != nil {
		d.Fatal(err)
	}
	root := filepath.Join(d.S3.Root(), "weir", "jobs", string(st.UID))

	d.allDown()
	repair := d.alter(filepath.Join(root, "shared"), func(b []byte) []byte { b[len(b)/2] ^= 4; return b })
	d.allUp()
	err = d.AwaitClosed(name, 60*time.Second)
	d.Log(err)
	d.mustSay(err, "shared/", "not restarted: a checkpoint is damaged")
	repair()
	d.idle()
	mustBeReadable(d.T, d.Brokers, name+"-out")

	repair = d.alter(d.newestManifest(root), func(b []byte) []byte { return b[:len(b)/2] })
	d.start(spec, "--from", "latest")
	err = d.AwaitClosed(name, 30*time.Second)
	d.Log(err)
	d.mustSay(err, "manifest")
	repair()

	d.start(spec, "--from", "latest")
	produce(d.T, d.Brokers, name+"-in", 3, numbered(1000, 500, 10)...)
	follow(d.T, d.Brokers, name+"-out").await(1500, 60*time.Second)
	d.cancel(name)
	d.once(name, 1500)
}

func (d day) mustSay(err error, texts ...string) {
	d.Helper()
	for _, want := range texts {
		if err == nil || !strings.Contains(err.Error(), want) {
			d.Errorf("the failure does not say %q: %v", want, err)
		}
	}
}

func (d day) allDown() {
	for _, w := range d.Workers {
		w.Kill()
	}
}

func (d day) allUp() {
	d.Helper()
	for _, w := range d.Workers {
		if err := w.Start(d.Ctx); err != nil {
			d.Fatal(err)
		}
	}
}

// alter changes every file below a path and returns what undoes it.
func (d day) alter(path string, change func([]byte) []byte) (undo func()) {
	d.Helper()
	before := map[string][]byte{}
	err := filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil || len(b) == 0 {
			return err
		}
		before[p] = slices.Clone(b)
		return os.WriteFile(p, change(b), 0o600)
	})
	if err != nil || len(before) == 0 {
		d.Fatalf("alter %s: %v, %d files", path, err, len(before))
	}
	return func() {
		d.Helper()
		for p, b := range before {
			if err := os.WriteFile(p, b, 0o600); err != nil {
				d.Fatal(err)
			}
		}
	}
}

// newestManifest is the newest decision that is a manifest, not an abort record.
func (d day) newestManifest(root string) string {
	d.Helper()
	all, err := filepath.Glob(filepath.Join(root, "chk-*", "committed"))
	if err != nil || len(all) == 0 {
		d.Fatalf("no committed checkpoint in %s: %v", root, err)
	}
	newest := slices.MaxFunc(all, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return filepath.Join(filepath.Dir(newest), "manifest")
}

// lockedOut: while S3 refuses the workers' keys a new job is refused with the reason, a running one says so and
// goes on when it accepts them again.
func lockedOut(d day) {
	name := d.flowing("patient")
	d.S3.Kill()
	d.S3.Secret = "another"
	d.S3.Start()
	kafkatest.CreateTopic(d.T, d.Brokers, "late-in", 1)
	kafkatest.CreateTopic(d.T, d.Brokers, "late-out", 1)
	d.fails("late", passThrough("late", ""), "secret key is wrong")
	d.KillAndRestart(d.Workers[0])
	d.says(name, 60*time.Second, "waiting", "the store cannot be read", "secret key is wrong")
	d.S3.Kill()
	d.S3.Secret = real.SecretKey
	d.S3.Start()
	produce(d.T, d.Brokers, name+"-in", 3, numbered(1000, 500, 10)...)
	follow(d.T, d.Brokers, name+"-out").await(1500, 90*time.Second)
	d.cancel(name)
	d.once(name, 1500)
}
