package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/weirstream/weir/dataplane/job"
	"github.com/weirstream/weir/dataplane/snapshot"
)

// abortTime bounds the best-effort abort of a failed multipart upload.
const abortTime = 10 * time.Second

// Upload implements snapshot.Store. Files larger than Config.PartSize go in parts. The file must not change
// meanwhile; it is read from the local file system, never streamed, since every request may be repeated.
func (s *Store) Upload(ctx context.Context, key, path string, size int64, digest string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("upload %s/%s: local file: %s", s, key, err.Error()) // not wrapped: no missing object
	}
	defer f.Close()
	sha, err := hex.DecodeString(digest)
	if err != nil || len(sha) != sha256.Size {
		return job.AsFatal(fmt.Errorf("upload %s/%s: digest %q", s, key, digest))
	}
	return s.call(ctx, "upload", key, size, func(ctx context.Context) error {
		if size > s.cfg.PartSize {
			return s.uploadParts(ctx, key, f, size, digest)
		}
		return s.put(ctx, key, io.NewSectionReader(f, 0, size), size, sha, aws.String("*"))
	})
}

// uploadParts is one try of a multipart upload. When it fails in any way the upload is aborted and the next try
// starts anew, which is also what S3 asks for after a 409 on completion. If the failed try was completed after
// all and only its reply was lost, the next one finds the object: ErrExists.
func (s *Store) uploadParts(ctx context.Context, key string, f io.ReaderAt, size int64, digest string) (err error) {
	// The condition on completion decides; this look only saves the upload of what is there already.
	if _, err := s.c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: s.bucket(), Key: s.key(key)}); err == nil {
		return snapshot.ErrExists
	} else if c, _ := classify(err); !errors.Is(c, snapshot.ErrNotFound) {
		return err
	}
	created, err := s.c.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{
		Bucket: s.bucket(), Key: s.key(key), ChecksumAlgorithm: types.ChecksumAlgorithmSha256,
	})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.abort(ctx, key, created.UploadId)
		}
	}()
	whole := sha256.New()
	var parts []types.CompletedPart
	for at, n := int64(0), int32(1); at < size; n++ {
		length := min(s.cfg.PartSize, size-at)
		part, err := s.uploadPart(ctx, key, created.UploadId, n, io.NewSectionReader(f, at, length), length, whole)
		if err != nil {
			return err
		}
		parts = append(parts, part)
		at += length
	}
	if got := hex.EncodeToString(whole.Sum(nil)); got != digest {
		return job.AsFatal(fmt.Errorf("local file has digest %s, want %s", got, digest))
	}
	_, err = s.c.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{
		Bucket: s.bucket(), Key: s.key(key), UploadId: created.UploadId, IfNoneMatch: aws.String("*"),
		MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	return err
}

// uploadPart hashes a part, uploads it with patience of its own, and adds it to the hash of the whole file.
func (s *Store) uploadPart(ctx context.Context, key string, id *string, n int32, part *io.SectionReader, length int64, whole hash.Hash) (types.CompletedPart, error) {
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(h, whole), part); err != nil {
		return types.CompletedPart{}, job.AsFatal(fmt.Errorf("local file: %w", err))
	}
	checksum := encode(h.Sum(nil))
	var etag *string
	err := s.retry(ctx, length, func(ctx context.Context) error {
		if _, err := part.Seek(0, io.SeekStart); err != nil {
			return err
		}
		r, err := s.c.UploadPart(ctx, &awss3.UploadPartInput{
			Bucket: s.bucket(), Key: s.key(key), UploadId: id, PartNumber: aws.Int32(n), Body: part, ContentLength: aws.Int64(length),
			ChecksumAlgorithm: types.ChecksumAlgorithmSha256, ChecksumSHA256: checksum,
		})
		if err == nil {
			etag = r.ETag
		}
		return err
	})
	if err != nil {
		return types.CompletedPart{}, fmt.Errorf("part %d: %w", n, err)
	}
	return types.CompletedPart{PartNumber: aws.Int32(n), ETag: etag, ChecksumSHA256: checksum}, nil
}

// abort removes the parts of a failed upload, best effort: AbortUploads or a lifecycle rule catches the rest.
func (s *Store) abort(ctx context.Context, key string, id *string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
	defer cancel()
	_ = s.abortUpload(ctx, s.key(key), id)
}

// AbortUploads aborts the multipart uploads below prefix that were begun before the given time, and returns how
// many there were. A process that is killed in the middle leaves its parts behind, which cost money and appear in
// no listing of objects. It needs s3:ListBucketMultipartUploads; where a lifecycle rule does the same it is not
// needed.
func (s *Store) AbortUploads(ctx context.Context, prefix string, before time.Time) (n int, err error) {
	in := &awss3.ListMultipartUploadsInput{Bucket: s.bucket(), Prefix: s.key(prefix)}
	for {
		var page *awss3.ListMultipartUploadsOutput
		err := s.retry(ctx, 0, func(ctx context.Context) (err error) {
			page, err = s.c.ListMultipartUploads(ctx, in)
			return err
		})
		if err != nil {
			return n, fmt.Errorf("list multipart uploads of %s/%s: %w", s, prefix, err)
		}
		for _, u := range page.Uploads {
			if !aws.ToTime(u.Initiated).Before(before) {
				continue // perhaps in progress
			}
			err := s.retry(ctx, 0, func(ctx context.Context) error { return s.abortUpload(ctx, u.Key, u.UploadId) })
			if err != nil {
				return n, fmt.Errorf("abort multipart upload of %s: %w", aws.ToString(u.Key), err)
			}
			n++
		}
		if !aws.ToBool(page.IsTruncated) {
			return n, nil
		}
		in.KeyMarker, in.UploadIdMarker = page.NextKeyMarker, page.NextUploadIdMarker
	}
}

func (s *Store) abortUpload(ctx context.Context, key, id *string) error {
	_, err := s.c.AbortMultipartUpload(ctx, &awss3.AbortMultipartUploadInput{Bucket: s.bucket(), Key: key, UploadId: id})
	if code, _ := codeAndStatus(err); code == "NoSuchUpload" {
		return nil
	}
	return err
}
