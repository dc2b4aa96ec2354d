package s3

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config says where the bucket is and how patient to be. Bucket is required.
type Config struct {
	Bucket string
	// Prefix is put before every key, with a '/' between; empty for none.
	Prefix string
	// Endpoint is the URL of an S3 server other than AWS.
	Endpoint string
	// Region defaults to that of the environment, else us-east-1.
	Region string
	// PathStyle addresses http://endpoint/bucket instead of http://bucket.endpoint; most other servers need it.
	PathStyle bool
	// AccessKey and SecretKey are static credentials; empty takes those of the environment (variables, profile,
	// instance or pod role).
	AccessKey, SecretKey, SessionToken string
	// RetryFor is how long an operation is repeated while the server answers 5xx, 429, SlowDown, 409 or not at all;
	// the context may end it sooner. 0 means 45 s: the SDK's own patience of less than a second is used up by
	// any SlowDown. Negative: no repetition.
	RetryFor time.Duration
	// BackoffMin and BackoffMax bound the pause between two tries, which doubles and is drawn at random between
	// half and the whole. 0 means 100 ms and 5 s.
	BackoffMin, BackoffMax time.Duration
	// PartSize is the size of the parts of a multipart upload, and files larger than it are uploaded so. S3 wants
	// at least 5 MiB. 0 means 64 MiB.
	PartSize int64
	// Client is the HTTP client; nil means one with timeouts for connecting and for the answer's header.
	Client *http.Client
}

func (c Config) withDefaults() Config {
	if c.RetryFor == 0 {
		c.RetryFor = 45 * time.Second
	}
	if c.BackoffMin <= 0 {
		c.BackoffMin = 100 * time.Millisecond
	}
	if c.BackoffMax <= 0 {
		c.BackoffMax = 5 * time.Second
	}
	if c.PartSize <= 0 {
		c.PartSize = 64 << 20
	}
	c.Prefix = strings.Trim(c.Prefix, "/")
	return c
}

// ParseURL reads s3://bucket or s3://bucket/prefix. Anything else that a URL can have is refused: credentials do
// not belong into a job spec, and a typo must not go unnoticed.
func ParseURL(s string) (Config, error) {
	u, err := url.Parse(s)
	if err != nil {
		return Config{}, errors.New("storage URL: cannot be parsed; write s3://bucket/prefix") // err would quote it
	}
	switch {
	case u.Scheme != "s3":
		return Config{}, fmt.Errorf("storage URL: scheme %q; write s3://bucket/prefix", u.Scheme)
	case u.User != nil:
		return Config{}, errors.New("storage URL: credentials in it; use the environment or the worker's settings")
	case u.Host == "" || u.Port() != "":
		return Config{}, errors.New("storage URL: no bucket, or a port; write s3://bucket/prefix")
	case u.RawQuery != "" || u.Fragment != "":
		return Config{}, errors.New("storage URL: query or fragment; write s3://bucket/prefix")
	}
	prefix := strings.Trim(u.Path, "/")
	for seg := range strings.SplitSeq(prefix, "/") {
		if seg == "." || seg == ".." || (seg == "" && prefix != "") {
			return Config{}, fmt.Errorf("storage URL: segment %q in the prefix", seg)
		}
	}
	return Config{Bucket: u.Host, Prefix: prefix}, nil
}
