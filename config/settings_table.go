package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// settingsTable names each setting once, by its dotted path.
func settingsTable() []field[Settings] {
	table := []field[Settings]{
		key("data_dir", "Directory of the node's working copies of state.", textOf[string]("directory"),
			func(s *Settings) *string { return &s.DataDir }, def("weir-data")),
		key("slots", "Subtasks of each chain that the node takes; the cores unless given.", integer(1, 1<<12),
			func(s *Settings) *int { return &s.Slots }),
		key("storage", "Snapshot store of jobs that name none: `s3://bucket/prefix` or `file:///path`.", storageURL(),
			func(s *Settings) *string { return &s.Storage }),

		key("s3.endpoint", "URL of an S3 server other than AWS.", checkedText("URL", checkEndpointURL),
			func(s *Settings) *string { return &s.S3.Endpoint }),
		key("s3.region", "Region; AWS's own configuration decides unless given.", textOf[string]("text"), func(s *Settings) *string { return &s.S3.Region }),
		key("s3.path_style", "Bucket in the path instead of the host name, as most servers other than AWS need.", boolean(),
			func(s *Settings) *bool { return &s.S3.PathStyle }, def("false")),
		key("s3.access_key", "Access key, a reference; the AWS SDK's own chain decides unless given.", secretText(),
			func(s *Settings) *Secret { return &s.S3.AccessKey }),
		key("s3.secret_key", "Secret key, a reference.", secretText(), func(s *Settings) *Secret { return &s.S3.SecretKey }),
		key("s3.session_token", "Session token of temporary keys, a reference.", secretText(),
			func(s *Settings) *Secret { return &s.S3.SessionToken }),

		key("cluster.bind", "Gossip listens here, TCP and UDP.", address(), func(s *Settings) *string { return &s.Cluster.Bind }, def("127.0.0.1:7946")),
		key("cluster.advertise", "Where others reach it; needed when `bind` is a wildcard.", address(),
			func(s *Settings) *string { return &s.Cluster.Advertise }),
		key("cluster.join", "Members to join; none starts a cluster.", listOf(address()), func(s *Settings) *[]string { return &s.Cluster.Join }),
		key("exchange.bind", "Records between nodes arrive here, TCP.", address(), func(s *Settings) *string { return &s.Exchange.Bind }, def("127.0.0.1:7947")),
		key("exchange.advertise", "Where others reach it; needed when `bind` is a wildcard.", address(),
			func(s *Settings) *string { return &s.Exchange.Advertise }),
		key("http.bind", "`/metrics`, `/healthz` and `/readyz`.", address(), func(s *Settings) *string { return &s.HTTP }, def("127.0.0.1:7948")),
		key("http.pprof", "Go profiles under `/debug/pprof/` there too.", boolean(), func(s *Settings) *bool { return &s.Pprof }, def("false")),

		key("log.level", "Least level that is logged.", enumOf[string](nil, "debug", "info", "warn", "error"),
			func(s *Settings) *string { return &s.Log.Level }, def("info")),
		key("log.format", "Lines for people or for machines.", enumOf[string](nil, "text", "json"),
			func(s *Settings) *string { return &s.Log.Format }, def("text")),
	}
	return append(table, failureTable()...)
}

func failureTable() []field[Settings] {
	return []field[Settings]{
		key("failure.keepalive", "How often an idle connection to a peer is probed.", duration(minDuration),
			func(s *Settings) *time.Duration { return &s.Failure.Keepalive }, def("500ms")),
		key("failure.peer_timeout", "Silence after which a peer is lost.", duration(minDuration),
			func(s *Settings) *time.Duration { return &s.Failure.PeerTimeout }, def("2s")),
		key("failure.probe_interval", "How often gossip probes a member.", duration(minDuration),
			func(s *Settings) *time.Duration { return &s.Failure.ProbeInterval }, def("1s")),
		key("failure.probe_timeout", "How long such a probe may take.", duration(minDuration),
			func(s *Settings) *time.Duration { return &s.Failure.ProbeTimeout }, def("500ms")),
		key("failure.unseen_grace", "How long after joining a member that was never seen may still appear.", duration(minDuration),
			func(s *Settings) *time.Duration { return &s.Failure.UnseenGrace }, def("5s")),
		key("failure.leave_timeout", "Bound of a clean exit after SIGTERM.", duration(minDuration),
			func(s *Settings) *time.Duration { return &s.Failure.LeaveTimeout }, def("8s")),
	}
}

// checkedText is text that passes check, whose errors never repeat the text.
func checkedText(kind string, check func(string) error) codec[string] {
	c := textOf[string](kind)
	read := c.read
	c.read = func(d *decoder, n *yaml.Node, at Place) (string, bool) {
		s, ok := read(d, n, at)
		if !ok {
			return "", false
		}
		if err := check(s); err != nil {
			d.failf(at, "", "%v", err)
			return "", false
		}
		return s, true
	}
	return c
}

// address is host:port; port 0 lets the system choose.
func address() codec[string] {
	return checkedText("host:port", func(s string) error {
		host, port, err := net.SplitHostPort(s)
		if err != nil || host == "" {
			return fmt.Errorf("%q is not host:port", s)
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return fmt.Errorf("%q is no port", port)
		}
		return nil
	})
}

func checkEndpointURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("not a URL; write https://host:port")
	case u.User != nil:
		return errors.New("a URL must not hold a user or password")
	}
	return nil
}
