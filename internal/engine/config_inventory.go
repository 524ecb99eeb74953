package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/conductor"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/objectstore"
)

// InventoryConfig says where inspection results are kept. The keys that begin with s3 are about the
// object store. It may be configured beside another backend, to read the results that it already
// has.
type InventoryConfig struct {
	DataBackend string `koanf:"data_backend"` // database, s3 or none

	S3Endpoint        string        `koanf:"s3_endpoint"` // http(s)://host[:port]; empty: no object store
	S3Bucket          string        `koanf:"s3_bucket"`
	S3Prefix          string        `koanf:"s3_prefix"` // beginning of the keys of objects
	S3Region          string        `koanf:"s3_region"`
	S3BucketLookup    string        `koanf:"s3_bucket_lookup"` // auto, dns or path
	S3AccessKey       Secret        `koanf:"s3_access_key"`
	S3SecretKey       Secret        `koanf:"s3_secret_key"`
	S3CredentialsFile string        `koanf:"s3_credentials_file"` // in place of the two keys; read again on change
	S3CAFile          string        `koanf:"s3_ca_file"`          // PEM
	S3AllowPlainHTTP  bool          `koanf:"s3_allow_plain_http"`
	S3Timeout         time.Duration `koanf:"s3_timeout"`  // limit of one call
	S3Patience        time.Duration `koanf:"s3_patience"` // how long an inspection waits for a failing store
}

// Secret is a value of the configuration that must not be shown.
type Secret string

// String hides the secret from the verbs of package fmt that use it.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return node.Mask
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue hides the secret from logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the secret from JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func defaultInventory() InventoryConfig {
	return InventoryConfig{
		DataBackend: string(conductor.InDatabase), S3Region: "us-east-1", S3BucketLookup: string(objectstore.LookupAuto),
		S3Timeout: 20 * time.Second, S3Patience: 10 * time.Minute,
	}
}

// problems returns what is wrong with where inventories are kept. The time for work must be several
// times the timeout of a call to the object store.
func (c InventoryConfig) problems(workTimeout time.Duration) []error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	switch conductor.InventoryBackend(c.DataBackend) {
	case conductor.InDatabase, conductor.Nowhere:
	case conductor.InObjectStore:
		check(c.S3Endpoint != "", "inventory.s3_endpoint: is required when inventory.data_backend is s3")
	default:
		check(false, "inventory.data_backend: want database, s3 or none, got %q", c.DataBackend)
	}
	if c.S3Endpoint == "" {
		check(c.S3Bucket == "" && c.S3AccessKey == "" && c.S3SecretKey == "" && c.S3CredentialsFile == "",
			"inventory.s3_endpoint: without it no other key of inventory.s3_* has a meaning: set it too")
		return errs
	}
	if err := c.endpointProblem(); err != nil {
		errs = append(errs, err)
	}
	check(c.S3Bucket != "", "inventory.s3_bucket: is required with inventory.s3_endpoint")
	check(!strings.HasPrefix(c.S3Prefix, "/"), "inventory.s3_prefix: must not begin with a slash, got %q", c.S3Prefix)
	switch objectstore.Lookup(c.S3BucketLookup) {
	case objectstore.LookupAuto, objectstore.LookupDNS, objectstore.LookupPath:
	default:
		check(false, "inventory.s3_bucket_lookup: want auto, dns or path, got %q", c.S3BucketLookup)
	}
	check((c.S3AccessKey == "") == (c.S3SecretKey == ""), "inventory.s3_access_key, inventory.s3_secret_key: want both or none of them")
	check((c.S3AccessKey == "") != (c.S3CredentialsFile == ""), "inventory.s3_endpoint: want either inventory.s3_access_key and inventory.s3_secret_key, or inventory.s3_credentials_file")
	limit := min(workTimeout/3, time.Minute)
	check(c.S3Timeout > 0 && c.S3Timeout <= limit, "inventory.s3_timeout: want more than 0 and at most %s (a third of conductor.work_timeout, or one minute), got %s", limit, c.S3Timeout)
	check(c.S3Patience > 0, "inventory.s3_patience: want more than 0, got %s", c.S3Patience)
	return errs
}

// endpointProblem refuses a URL that does not name a server. It also refuses plain http over a
// network, which shows inventories to everybody on the way.
func (c InventoryConfig) endpointProblem() error {
	endpoint, err := url.Parse(c.S3Endpoint)
	switch {
	case err != nil, endpoint.Host == "", endpoint.Scheme != "http" && endpoint.Scheme != "https":
		return errors.New("inventory.s3_endpoint: want https://host or https://host:port")
	case endpoint.User != nil, endpoint.RawQuery != "", strings.Trim(endpoint.Path, "/") != "":
		return errors.New("inventory.s3_endpoint: want https://host or https://host:port and nothing more: the bucket is inventory.s3_bucket, credentials are inventory.s3_access_key and inventory.s3_secret_key")
	case endpoint.Scheme == "http" && !isLoopback(endpoint.Hostname()) && !c.S3AllowPlainHTTP:
		return fmt.Errorf("inventory.s3_endpoint: %s is not a loopback address, and without TLS everybody on the way reads and changes inventories: "+
			"use https, or set inventory.s3_allow_plain_http if the network is trusted", endpoint.Host)
	}
	return nil
}

// startCheck bounds how long the start of an engine waits for the object store.
const startCheck = 3 * time.Second

// open returns where the conductor keeps inventories. It fails if the object store refuses the
// configuration. If the object store does not answer, the engine starts without it, and work waits
// for it later.
func (c InventoryConfig) open(ctx context.Context, log *slog.Logger) (conductor.Inventories, error) {
	kept := conductor.Inventories{Backend: conductor.InventoryBackend(c.DataBackend), Prefix: c.S3Prefix, Timeout: c.S3Timeout, MaxWait: c.S3Patience}
	if c.S3Endpoint == "" {
		return kept, nil
	}
	bucket, err := objectstore.Open(objectstore.Config{
		Endpoint: c.S3Endpoint, Bucket: c.S3Bucket, Region: c.S3Region, Lookup: objectstore.Lookup(c.S3BucketLookup),
		AccessKey: string(c.S3AccessKey), SecretKey: string(c.S3SecretKey), CredentialsFile: c.S3CredentialsFile,
		CAFile: c.S3CAFile, Timeout: c.S3Timeout, Logger: log,
	})
	if err != nil {
		return kept, fmt.Errorf("set up the object store for inventories: %w", err)
	}
	kept.Objects = bucket
	bounded, cancel := context.WithTimeout(ctx, startCheck)
	defer cancel()
	switch err := bucket.Check(bounded, c.S3Prefix); {
	case ctx.Err() != nil:
		return kept, ctx.Err()
	case errors.Is(err, objectstore.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		log.Warn("Object store for inventories does not answer, going on without it for now", "err", err)
	case err != nil:
		return kept, fmt.Errorf("try the object store for inventories: %w", err)
	}
	return kept, nil
}
