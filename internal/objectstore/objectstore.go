// Package objectstore stores objects of some megabytes in one bucket of an object
// store with the S3 protocol. It does not interpret them.
//
// Every call has a deadline and is tried once; the caller decides about retries. After a call
// without an answer, the store gets no requests for a moment. Calls then fail at once, so that
// callers do not all wait for the store. Errors name the setting of package engine to correct, if
// there is one, and never a credential.
package objectstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"time"

	"github.com/minio/minio-go/v7"
)

// maxObject limits what is read of an object, in bytes. An inspection result contains the posted
// inventory, at most 16 MiB, and what hooks derived from it.
const maxObject = 64 << 20

// Config says which bucket to use and with which credentials. Endpoint, Bucket, Timeout and either
// CredentialsFile or both keys are required.
type Config struct {
	Endpoint string // http(s)://host[:port]
	Bucket   string
	Region   string // as the signature names it
	Lookup   Lookup
	// AccessKey and SecretKey are the credentials unless CredentialsFile is set.
	AccessKey, SecretKey string
	// CredentialsFile has the format of ~/.aws/credentials; only its profile "default" is used. It
	// is read again when it changes.
	CredentialsFile string
	CAFile          string        // PEM; certificates to trust beside those of the system
	Timeout         time.Duration // limit of one call
	Logger          *slog.Logger
}

// Lookup says where requests name the bucket.
type Lookup string

// Ways to name the bucket.
const (
	LookupAuto Lookup = "auto" // depends on the host name of the endpoint
	LookupDNS  Lookup = "dns"  // in the host name
	LookupPath Lookup = "path" // in the path
)

var lookups = map[Lookup]minio.BucketLookupType{
	"": minio.BucketLookupAuto, LookupAuto: minio.BucketLookupAuto, LookupDNS: minio.BucketLookupDNS, LookupPath: minio.BucketLookupPath,
}

// Bucket is where objects are kept. It is safe for concurrent use.
type Bucket struct {
	core     *minio.Core
	endpoint string
	name     string
	timeout  time.Duration
	breaker  breaker
}

// Open prepares access and reads the files that the configuration names. It sends no request: Check
// does.
func Open(cfg Config) (*Bucket, error) {
	endpoint, err := url.Parse(cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("inventory.s3_endpoint: %w", err)
	}
	secure := endpoint.Scheme == "https"
	transport, err := newTransport(secure, cfg.CAFile)
	if err != nil {
		return nil, err
	}
	credentials, err := newCredentials(cfg)
	if err != nil {
		return nil, err
	}
	core, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds: credentials, Secure: secure, Transport: transport, Region: cfg.Region,
		BucketLookup: lookups[cfg.Lookup], MaxRetries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("inventory.s3_endpoint: %w", err)
	}
	core.SetAppInfo("ingot", "1")
	return &Bucket{core: core, endpoint: endpoint.Scheme + "://" + endpoint.Host, name: cfg.Bucket, timeout: cfg.Timeout}, nil
}

// String returns the name of the bucket for logs.
func (b *Bucket) String() string { return b.endpoint + "/" + b.name }

// Put stores an object, or replaces it. If it fails, the object may be stored nevertheless.
func (b *Bucket) Put(ctx context.Context, key string, content []byte) error {
	return b.call(ctx, "put", key, func(ctx context.Context) error {
		// The signature covers the checksum, so the store knows that everything has arrived. Over
		// http, the library would sign the content in pieces, which not every store accepts.
		sum := sha256.Sum256(content)
		_, err := b.core.PutObject(ctx, b.name, key, bytes.NewReader(content), int64(len(content)), "", hex.EncodeToString(sum[:]),
			minio.PutObjectOptions{ContentType: "application/json", DisableContentSha256: true})
		return err
	})
}

// Fetch returns an object. If it does not exist, the error is node.ErrNotFound.
func (b *Bucket) Fetch(ctx context.Context, key string) (content []byte, err error) {
	err = b.call(ctx, "fetch", key, func(ctx context.Context) error {
		body, info, _, err := b.core.GetObject(ctx, b.name, key, minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		defer body.Close()
		if info.Size > maxObject {
			return &refusedError{reason: fmt.Sprintf("it has %d bytes, more than the %d that an inventory can have", info.Size, maxObject)}
		}
		content, err = io.ReadAll(io.LimitReader(body, maxObject))
		return err
	})
	return content, err
}

// Delete removes an object. It is no error if the object does not exist.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	err := b.call(ctx, "delete", key, func(ctx context.Context) error {
		return b.core.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{})
	})
	if isMissing(err) { // some stores report a missing object; Amazon's does not
		return nil
	}
	return err
}

// Check puts, fetches and deletes a small object whose name begins with prefix. An error other than
// ErrUnavailable needs an operator.
func (b *Bucket) Check(ctx context.Context, prefix string) error {
	key, content := prefix+"ingot-check", []byte(`{"written by":"ingot, to see whether it may"}`)
	if err := b.Put(ctx, key, content); err != nil {
		return err
	}
	// The check of another engine may have removed the object.
	if _, err := b.Fetch(ctx, key); err != nil && !isMissing(err) {
		return err
	}
	return b.Delete(ctx, key)
}
