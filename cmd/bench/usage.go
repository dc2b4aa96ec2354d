package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weirstream/weir/cmd/local"
)

// Process is a process that is accounted for beside the workers.
type Process struct {
	Name string
	Pid  int
}

// usage is what processes have used since they started.
type usage struct {
	weir                       time.Duration
	beside                     []time.Duration
	allocs, bytes, collections int64
	peak                       int64
}

// sample reads the use of all processes.
func sample(ctx context.Context, workers []*local.Worker, beside []Process) (u usage, err error) {
	for _, w := range workers {
		t, err := CPUTime(w.Pid())
		if err != nil {
			return u, fmt.Errorf("worker %d: %w", w.Index, err)
		}
		u.weir += t
		peak, err := peakBytes(w.Pid())
		if err != nil {
			return u, fmt.Errorf("worker %d: %w", w.Index, err)
		}
		u.peak = max(u.peak, peak)
		m, err := metrics(ctx, w)
		if err != nil {
			return u, fmt.Errorf("worker %d: %w", w.Index, err)
		}
		u.allocs += int64(m["go_memstats_mallocs_total"])
		u.bytes += int64(m["go_memstats_alloc_bytes_total"])
		u.collections += int64(m["go_gc_duration_seconds_count"])
	}
	for _, p := range beside {
		t, err := CPUTime(p.Pid)
		if err != nil {
			return u, fmt.Errorf("%s: %w", p.Name, err)
		}
		u.beside = append(u.beside, t)
	}
	return u, nil
}

// since is what was used between two samples.
func (u usage) since(v usage, beside []Process) *Result {
	r := &Result{
		Weir: u.weir - v.weir, Allocations: u.allocs - v.allocs, AllocatedBytes: u.bytes - v.bytes,
		Collections: u.collections - v.collections, PeakBytes: u.peak,
	}
	for i, p := range beside {
		r.Beside = append(r.Beside, ProcessTime{p.Name, u.beside[i] - v.beside[i]})
	}
	return r
}

// tick is the unit of the times in /proc/<pid>/stat, which is fixed in Linux's interface to programs (USER_HZ).
const tick = 10 * time.Millisecond

// CPUTime is the time that a process has spent so far, in user and system mode, all threads together, in steps of
// 10 ms. Linux only.
func CPUTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(b)
}

// parseStat reads utime and stime, the 14th and 15th field; the second is the program's name in parentheses,
// which may hold anything.
func parseStat(b []byte) (time.Duration, error) {
	i := bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[i+1:]))
	if i < 0 || len(f) < 13 {
		return 0, fmt.Errorf("not a process's stat: %q", b)
	}
	user, err := strconv.ParseInt(f[11], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("utime: %w", err)
	}
	system, err := strconv.ParseInt(f[12], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("stime: %w", err)
	}
	return time.Duration(user+system) * tick, nil
}

// peakBytes is the highest resident size that a process has had.
func peakBytes(pid int) (int64, error) { return statusBytes(pid, "VmHWM:") }

// ResidentBytes is the memory that a process occupies. Linux only.
func ResidentBytes(pid int) (int64, error) { return statusBytes(pid, "VmRSS:") }

// statusBytes reads a size out of /proc/<pid>/status, which has them in KiB.
func statusBytes(pid int, name string) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(b), name)
	if f := strings.Fields(rest); ok && len(f) > 0 {
		kib, err := strconv.ParseInt(f[0], 10, 64)
		return kib << 10, err
	}
	return 0, fmt.Errorf("no %s in /proc/%d/status", name, pid)
}

// metrics are a worker's metrics without labels.
func metrics(ctx context.Context, w *local.Worker) (map[string]float64, error) {
	var text bytes.Buffer
	if err := fetch(ctx, w.HTTP()+"/metrics", &text); err != nil {
		return nil, err
	}
	m := map[string]float64{}
	lines := bufio.NewScanner(&text)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || strings.HasPrefix(name, "#") || strings.Contains(name, "{") {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", name, err)
		}
		m[name] = v
	}
	return m, lines.Err()
}

// fetch copies what a URL answers.
func fetch(ctx context.Context, url string, to io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", url, resp.Status)
	}
	if _, err := io.Copy(to, resp.Body); err != nil {
		return fmt.Errorf("get %s: %w", url, err)
	}
	return nil
}
