package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirstream/weir/dataplane/cluster"
	"github.com/weirstream/weir/dataplane/node"
)

// httpServer shows the process: /metrics, /healthz (the process works), /readyz (it takes work), and the
// fresh figures of its attempts as JSON at /attempts.
type httpServer struct {
	listener net.Listener
	server   *http.Server
	// waiting is why the process is not ready; nil when it is.
	waiting atomic.Pointer[string]
}

func listenHTTP(bind string) (*httpServer, error) {
	l, err := net.Listen("tcp", bind)
	if err != nil {
		return nil, err
	}
	h := &httpServer{listener: l}
	h.setReady("starting")
	return h, nil
}

func (h *httpServer) addr() string { return h.listener.Addr().String() }

// setReady says what the process waits for; "" means that it is ready.
func (h *httpServer) setReady(waiting string) {
	if waiting == "" {
		h.waiting.Store(nil)
		return
	}
	h.waiting.Store(&waiting)
}

func (h *httpServer) serve(n *node.Node, c *cluster.Cluster, profiles bool) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), figures{n})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := h.waiting.Load(); why != nil {
			http.Error(w, *why, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.HandleFunc("GET /attempts", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, n.Figures()) })
	mux.HandleFunc("GET /members", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, c.Members()) })
	if profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	h.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = h.server.Serve(h.listener) }() // ends with close
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (h *httpServer) close(ctx context.Context) error {
	if h.server == nil {
		return h.listener.Close()
	}
	err := h.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return h.server.Close()
	}
	return err
}
