// Package s3 is the snapshot store in an S3 bucket.
//
// Rights that it needs on the bucket and prefix: s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject and
// s3:AbortMultipartUpload. The server must honour If-None-Match: * on PutObject and, for large files, on
// CompleteMultipartUpload (AWS does, and so do most servers by now): that condition is what decides a
// checkpoint. A lifecycle rule AbortIncompleteMultipartUpload should remove the parts that a killed process left.
package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// Store is a bucket with a prefix.
type Store struct {
	cfg Config
	c   *awss3.Client
}

var _ snapshot.Store = (*Store)(nil)

// Open returns the store; it makes no request. A bucket that is missing or without rights shows with the first
// call, as a fatal error that says so.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if cfg.Bucket == "" {
		return nil, job.AsFatal(errors.New("open s3 store: no bucket"))
	}
	var load []func(*awsconfig.LoadOptions) error
	if cfg.Region != "" {
		load = append(load, awsconfig.WithRegion(cfg.Region))
	}
	if cfg.AccessKey != "" {
		load = append(load, awsconfig.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(cfg.AccessKey, cfg.SecretKey, cfg.SessionToken)))
	}
	a, err := awsconfig.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("open s3 store %s: %w", cfg.Bucket, err)
	}
	if a.Region == "" {
		a.Region = "us-east-1"
	}
	client := cfg.Client
	if client == nil {
		client = newClient()
	}
	return &Store{cfg: cfg, c: awss3.NewFromConfig(a, func(o *awss3.Options) {
		if cfg.Endpoint != "" {
			o.BaseEndpoint = aws.String(cfg.Endpoint)
		}
		o.UsePathStyle = cfg.PathStyle
		o.HTTPClient = client
		o.Retryer = aws.NopRetryer{} // retry.go is more patient
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	})}, nil
}

// newClient returns a client that notices a server which does not answer.
func newClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = 30 * time.Second
	t.MaxIdleConnsPerHost = 32
	return &http.Client{Transport: t}
}

// String implements snapshot.Store.
func (s *Store) String() string {
	if s.cfg.Prefix == "" {
		return "s3://" + s.cfg.Bucket
	}
	return "s3://" + s.cfg.Bucket + "/" + s.cfg.Prefix
}

// key is the object's key in the bucket.
func (s *Store) key(key string) *string {
	if s.cfg.Prefix == "" {
		return aws.String(key)
	}
	return aws.String(s.cfg.Prefix + "/" + key)
}

func (s *Store) bucket() *string { return aws.String(s.cfg.Bucket) }

// call checks the key and runs try with patience.
func (s *Store) call(ctx context.Context, op, key string, size int64, try func(context.Context) error) error {
	err := ctx.Err()
	if err == nil {
		if err = snapshot.CheckKey(key); err != nil {
			err = job.AsFatal(err)
		} else {
			err = s.retry(ctx, size, try)
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s/%s: %w", op, s, key, err)
	}
	return nil
}

// Create implements snapshot.Store.
func (s *Store) Create(ctx context.Context, key string, body []byte) error {
	return s.call(ctx, "create", key, int64(len(body)), func(ctx context.Context) error {
		return s.put(ctx, key, bytes.NewReader(body), int64(len(body)), sum(body), aws.String("*"))
	})
}

// Put implements snapshot.Store.
func (s *Store) Put(ctx context.Context, key string, body []byte) error {
	return s.call(ctx, "put", key, int64(len(body)), func(ctx context.Context) error {
		return s.put(ctx, key, bytes.NewReader(body), int64(len(body)), sum(body), nil)
	})
}

func (s *Store) put(ctx context.Context, key string, body io.ReadSeeker, size int64, sha []byte, ifNoneMatch *string) error {
	_, err := s.c.PutObject(ctx, &awss3.PutObjectInput{
		Bucket: s.bucket(), Key: s.key(key), Body: body, ContentLength: aws.Int64(size), IfNoneMatch: ifNoneMatch,
		ChecksumAlgorithm: types.ChecksumAlgorithmSha256, ChecksumSHA256: encode(sha),
	})
	return err
}

func sum(b []byte) []byte {
	h := sha256.Sum256(b)
	return h[:]
}

func encode(sha []byte) *string { return aws.String(base64.StdEncoding.EncodeToString(sha)) }

// Get implements snapshot.Store.
func (s *Store) Get(ctx context.Context, key string, limit int64) ([]byte, error) {
	var b []byte
	err := s.call(ctx, "get", key, limit, func(ctx context.Context) error {
		r, err := s.c.GetObject(ctx, &awss3.GetObjectInput{Bucket: s.bucket(), Key: s.key(key)})
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if b, err = io.ReadAll(io.LimitReader(r.Body, limit+1)); err != nil {
			return err
		}
		if int64(len(b)) > limit {
			return job.AsFatal(fmt.Errorf("more than %d bytes", limit))
		}
		if r.ContentLength != nil && *r.ContentLength != int64(len(b)) {
			return fmt.Errorf("%d bytes, the header says %d: %w", len(b), *r.ContentLength, io.ErrUnexpectedEOF)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Open implements snapshot.Store. Only the beginning is repeated; an error while the caller reads is the caller's.
func (s *Store) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	var body io.ReadCloser
	err := s.call(ctx, "open", key, unbounded, func(ctx context.Context) error {
		r, err := s.c.GetObject(ctx, &awss3.GetObjectInput{Bucket: s.bucket(), Key: s.key(key)})
		if err == nil {
			body = r.Body
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return body, nil
}

// List implements snapshot.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]snapshot.Object, error) {
	var out []snapshot.Object
	full := *s.key(prefix)
	in := &awss3.ListObjectsV2Input{Bucket: s.bucket(), Prefix: aws.String(full)}
	for {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("list %s/%s: %w", s, prefix, err)
		}
		var page *awss3.ListObjectsV2Output
		err := s.retry(ctx, 0, func(ctx context.Context) (err error) {
			page, err = s.c.ListObjectsV2(ctx, in)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list %s/%s: %w", s, prefix, err)
		}
		for _, o := range page.Contents {
			key := strings.TrimPrefix(aws.ToString(o.Key), strings.TrimSuffix(full, prefix))
			out = append(out, snapshot.Object{Key: key, Size: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified)})
		}
		if !aws.ToBool(page.IsTruncated) || page.NextContinuationToken == nil {
			break
		}
		in.ContinuationToken = page.NextContinuationToken
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out, nil
}

// deleteBatch is the most that one DeleteObjects takes.
const deleteBatch = 1000

// Delete implements snapshot.Store.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := snapshot.CheckKey(key); err != nil {
			return job.AsFatal(fmt.Errorf("delete from %s: %w", s, err))
		}
	}
	for len(keys) > 0 {
		batch := keys[:min(deleteBatch, len(keys))]
		keys = keys[len(batch):]
		if err := s.retry(ctx, 0, func(ctx context.Context) error { return s.deleteObjects(ctx, batch) }); err != nil {
			return fmt.Errorf("delete %d objects from %s, %s first: %w", len(batch), s, batch[0], err)
		}
	}
	return nil
}

func (s *Store) deleteObjects(ctx context.Context, keys []string) error {
	d := &types.Delete{Quiet: aws.Bool(true)}
	for _, k := range keys {
		d.Objects = append(d.Objects, types.ObjectIdentifier{Key: s.key(k)})
	}
	r, err := s.c.DeleteObjects(ctx, &awss3.DeleteObjectsInput{Bucket: s.bucket(), Delete: d})
	if err != nil {
		return err
	}
	for _, e := range r.Errors {
		if code := aws.ToString(e.Code); code != "NoSuchKey" {
			return fmt.Errorf("%s: %w", aws.ToString(e.Key), &codeError{code: code, message: aws.ToString(e.Message)})
		}
	}
	return nil
}
