package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirstream/weir/dataplane/job"
)

// rights says in words which right an authorization error asks for; %s is the resource's name.
var rights = map[int16]string{
	kerr.TopicAuthorizationFailed.Code:           "topic %q",
	kerr.GroupAuthorizationFailed.Code:           "group %q",
	kerr.ClusterAuthorizationFailed.Code:         "the cluster (needed for %s)",
	kerr.TransactionalIDAuthorizationFailed.Code: "transactional ids (%s)",
}

// classify wraps err with what was done to which resource, and classifies it. right is what an ACL must
// allow for it ("Read", "Write", …). A nil err stays nil.
func classify(err error, op, resource, right string) error {
	if err == nil {
		return nil
	}
	wrapped := fmt.Errorf("%s %s: %w", op, resource, err)
	var auth *kadm.AuthError
	if errors.As(err, &auth) {
		err = auth.Err
	}
	var code *kerr.Error
	if errors.As(err, &code) {
		return classifyCode(code, wrapped, op, resource, right)
	}
	var unknownCA x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var verification *tls.CertificateVerificationError
	var firstRead *kgo.ErrFirstReadEOF
	switch {
	case errors.As(err, &unknownCA), errors.As(err, &hostname), errors.As(err, &verification):
		return job.AsFatal(fmt.Errorf("%s %s: the broker's certificate is not accepted: %w", op, resource, err))
	case errors.As(err, &firstRead):
		// A broker that expects TLS or SASL closes the first connection, but so does one that is just
		// going down: only a hint, not a verdict.
		return fmt.Errorf("%w (if this persists: check tls and sasl of the connection)", wrapped)
	}
	return wrapped
}

func classifyCode(code *kerr.Error, wrapped error, op, resource, right string) error {
	switch code {
	case kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed,
		kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed:
		on := fmt.Sprintf(rights[code.Code], resource)
		return job.AsFatal(fmt.Errorf("%s: right %s on %s is missing: %w", op, right, on, code))
	case kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState:
		return job.AsFatal(fmt.Errorf("%s %s: the broker refuses the connection's sasl settings: %w", op, resource, wrapped))
	case kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.TransactionCoordinatorFenced:
		return job.AsFenced(wrapped)
	case kerr.UnknownTopicOrPartition:
		return job.AsFatal(fmt.Errorf("%s %q: it does not exist; create it, or correct its name: %w", op, resource, code))
	case kerr.InvalidTopicException, kerr.InvalidTransactionTimeout,
		kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.UnsupportedVersion, kerr.InvalidConfig,
		kerr.InvalidRequest, kerr.PolicyViolation, kerr.InvalidRecord:
		return job.AsFatal(wrapped)
	}
	return wrapped
}

// answered reports whether err is the answer of a broker, which therefore has nothing left to carry out.
func answered(err error) bool {
	var code *kerr.Error
	return errors.As(err, &code)
}

// unreachable reports whether err says that no broker answered, as opposed to an answer that is an error.
func unreachable(err error) bool {
	if err == nil || answered(err) {
		return false
	}
	var op net.Error
	return errors.As(err, &op) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || kgo.IsRetryableBrokerErr(err)
}
