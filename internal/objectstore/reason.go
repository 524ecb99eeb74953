package objectstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/ingot-metal/ingot/internal/node"
)

// ErrUnavailable means that the store does not answer, or not now. The same call may succeed later.
var ErrUnavailable = errors.New("object store is not available")

// unavailableError is an ErrUnavailable with its reason.
type unavailableError struct{ reason string }

func (e *unavailableError) Error() string { return e.reason }

// Is makes errors.Is(err, ErrUnavailable) true.
func (e *unavailableError) Is(target error) bool { return target == ErrUnavailable }

// refusedError is a refusal that lasts until an operator corrects the cause.
type refusedError struct{ reason string }

func (e *refusedError) Error() string { return e.reason }

// missingError is about an object that does not exist.
type missingError struct{}

func (missingError) Error() string { return "there is no such object" }

// Is makes errors.Is(err, node.ErrNotFound) true.
func (missingError) Is(target error) bool { return target == node.ErrNotFound }

// advice says what to do about those error codes of the store that only an operator can resolve.
// The codes are from Amazon's "Error responses" page, which other stores follow.
var advice = map[string]string{
	"NoSuchBucket":       "there is no such bucket: create it, or correct inventory.s3_bucket",
	"InvalidBucketName":  "the store does not allow that bucket name: correct inventory.s3_bucket",
	"InvalidAccessKeyId": "the store does not know the access key: correct inventory.s3_access_key or inventory.s3_credentials_file",
	// versitygw has this code.
	"XAdminUserNotFound":           "the store does not know the access key: correct inventory.s3_access_key or inventory.s3_credentials_file",
	"SignatureDoesNotMatch":        "the secret key does not belong to the access key: correct inventory.s3_secret_key or inventory.s3_credentials_file",
	"AccessDenied":                 "the access key may not do that: allow it to put, get and delete objects in the bucket",
	"AllAccessDisabled":            "the store has closed the bucket",
	"AuthorizationHeaderMalformed": "the store does not accept the signature: correct inventory.s3_region",
	"InvalidRegion":                "the bucket is in another region: correct inventory.s3_region",
	"PermanentRedirect":            "the bucket is elsewhere: correct inventory.s3_endpoint and inventory.s3_region",
	"RequestTimeTooSkewed":         "the clock of this machine differs from that of the store: set it right",
	"QuotaExceeded":                "the bucket is full",
	"XMinioStorageFull":            "the store is full",
}

// explain converts the error of a request into one of the three kinds. It shortens the store's
// text. The store does not know the secret key, and names the access key only outside of the text
// that is used here.
func (b *Bucket) explain(err error) error {
	if err == nil {
		return nil
	}
	var refused *refusedError
	if errors.As(err, &refused) {
		return refused
	}
	var answer minio.ErrorResponse
	if errors.As(err, &answer) {
		return explainAnswer(answer)
	}
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate):
		return &refusedError{fmt.Sprintf("its certificate can not be verified (%s): set inventory.s3_ca_file to the certificate of its authority", node.CutText(certificate.Err.Error()))}
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return &refusedError{"it speaks http and not https: correct inventory.s3_endpoint"}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &unavailableError{"it did not answer in time"}
	}
	return &unavailableError{"it does not answer: " + node.CutText(plain(err))}
}

// plain returns the text of a connection error without the URL of the request.
func plain(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Error()
	}
	return err.Error()
}

func explainAnswer(answer minio.ErrorResponse) error {
	said := node.CutText(fmt.Sprintf("%s, %q", answer.Code, answer.Message))
	if answer.Code == "NoSuchKey" {
		// The library makes this code of every 404 whose body is no S3 error, for example of a
		// proxy that has no backend. Such an answer must not mean that an existing object is gone.
		if answer.XMLName.Local == "" && answer.RequestID == "" {
			return &refusedError{"it answered with status 404 and not as an S3 service does: is inventory.s3_endpoint the address of one?"}
		}
		return missingError{}
	}
	if text, ok := advice[answer.Code]; ok {
		return &refusedError{fmt.Sprintf("%s (the store said %s)", text, said)}
	}
	switch status := answer.StatusCode; {
	case status >= http.StatusInternalServerError, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status == 0:
		return &unavailableError{fmt.Sprintf("the store said %s (status %d)", said, status)}
	}
	return &refusedError{fmt.Sprintf("the store said %s (status %d): is inventory.s3_endpoint the address of an S3 service?", said, answer.StatusCode)}
}
