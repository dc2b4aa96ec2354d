package s3

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// unbounded as a size means: no time limit for a single try.
const unbounded = -1

// A try may take this long, plus a second for every minRate bytes: a connection that hangs must not use up all
// the patience.
const (
	tryTime = 30 * time.Second
	minRate = 1 << 20
)

// retry runs try until it succeeds, fails for good, or cfg.RetryFor or the context is over. size is how many
// bytes a try moves. What it returns is classified.
func (s *Store) retry(ctx context.Context, size int64, try func(context.Context) error) error {
	deadline := time.Now().Add(s.cfg.RetryFor)
	pause := s.cfg.BackoffMin
	for n := 1; ; n++ {
		err := s.once(ctx, size, try)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w (try %d: %w)", ctx.Err(), n, err)
		}
		classified, again := classify(err)
		wait := pause/2 + rand.N(pause/2+1)
		if !again || time.Now().Add(wait).After(deadline) {
			if again {
				return fmt.Errorf("gave up after %d tries: %w", n, classified)
			}
			return classified
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		pause = min(2*pause, s.cfg.BackoffMax)
	}
}

func (s *Store) once(ctx context.Context, size int64, try func(context.Context) error) error {
	if size == unbounded {
		return try(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, tryTime+time.Duration(size/minRate)*time.Second)
	defer cancel()
	return try(ctx)
}

// codeError is an S3 error that came inside a successful answer.
type codeError struct{ code, message string }

func (e *codeError) Error() string                 { return e.code + ": " + e.message }
func (e *codeError) ErrorCode() string             { return e.code }
func (e *codeError) ErrorMessage() string          { return e.message }
func (e *codeError) ErrorFault() smithy.ErrorFault { return smithy.FaultUnknown }

// refusedError says what to do and the server's code; the SDK's own text is four times as long, most of it
// request ids, and hides both.
type refusedError struct {
	hint, code string
	err        error
}

func (e *refusedError) Error() string { return e.hint + " (" + e.code + ")" }
func (e *refusedError) Unwrap() error { return e.err }

// hints say what to do about errors that no repetition cures.
var hints = map[string]string{
	"AccessDenied":                 "the credentials lack a right: s3:ListBucket on the bucket, s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload on the prefix are needed",
	"Forbidden":                    "the credentials lack a right: s3:ListBucket on the bucket and s3:GetObject on the prefix are needed",
	"AllAccessDisabled":            "access to the bucket is disabled",
	"NoSuchBucket":                 "the bucket does not exist; create it, or correct checkpoint.storage",
	"InvalidBucketName":            "correct checkpoint.storage",
	"InvalidAccessKeyId":           "the access key is unknown to the server; check the worker's credentials",
	"SignatureDoesNotMatch":        "the secret key is wrong; check the worker's credentials",
	"PermanentRedirect":            "the bucket is in another region or at another endpoint",
	"AuthorizationHeaderMalformed": "the region is wrong",
	"NotImplemented":               "the server does not support the request; conditional writes (If-None-Match) are needed",
	"RequestTimeTooSkewed":         "this machine's clock is wrong",
}

// transient are codes that the server means to be repeated, whatever their HTTP status.
var transient = []string{
	"SlowDown", "RequestTimeout", "RequestTimeoutException", "InternalError", "ServiceUnavailable", "OperationAborted",
	"ConditionalRequestConflict", "TooManyRequests", "ThrottlingException", "Throttling", "RequestLimitExceeded",
	"ExpiredToken", "NoSuchUpload",
}

// digests are the codes of content that is not what its digest says: the local file changed, or the network
// damaged it. The same request would fail again or not, but the caller should know now.
var digests = []string{"BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "InvalidDigest"}

// classify wraps err with what it means, and says whether the same request may succeed if repeated at once.
func classify(err error) (classified error, again bool) {
	if job.ClassOf(err) == job.Fatal || errors.Is(err, snapshot.ErrExists) || errors.Is(err, snapshot.ErrNotFound) {
		return err, false
	}
	code, status := codeAndStatus(err)
	switch {
	case status == http.StatusPreconditionFailed || code == "PreconditionFailed":
		return fmt.Errorf("%w (%w)", snapshot.ErrExists, err), false
	case code == "NoSuchKey" || (status == http.StatusNotFound && code == "NotFound"):
		return fmt.Errorf("%w (%w)", snapshot.ErrNotFound, err), false
	case hints[code] != "":
		return job.AsFatal(&refusedError{hints[code], code, err}), false
	case slices.Contains(digests, code):
		return fmt.Errorf("%w (%w)", snapshot.ErrContent, err), false
	case slices.Contains(transient, code), status >= 500, status == http.StatusTooManyRequests, status == http.StatusConflict:
		return err, true
	case strings.Contains(err.Error(), "get identity: get credentials"): // the SDK has no type for it
		return job.AsFatal(fmt.Errorf("no credentials found; set them in the environment or the worker's settings (%w)", err)), false
	case status >= 400:
		return job.AsFatal(err), false
	}
	return err, true // the network: refused, reset, cut off, timed out
}

func codeAndStatus(err error) (code string, status int) {
	var api smithy.APIError
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
	}
	return code, status
}
