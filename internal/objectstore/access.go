package objectstore

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/ingot-metal/ingot/internal/reload"
)

// connectTimeout limits the connection set-up, which a reachable store completes in milliseconds.
const connectTimeout = 5 * time.Second

// newTransport returns a transport that trusts the authorities of the system and those in caFile.
func newTransport(secure bool, caFile string) (*http.Transport, error) {
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, fmt.Errorf("set up connections to the object store: %w", err)
	}
	transport.DialContext = (&net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}).DialContext
	if caFile == "" || !secure {
		return transport, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("inventory.s3_ca_file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("inventory.s3_ca_file: %s holds no PEM certificate", caFile)
	}
	transport.TLSClientConfig.RootCAs = pool
	return transport, nil
}

// newCredentials returns the keys of the configuration. If the configuration names a file, it
// returns the keys that the file has when a request is signed.
func newCredentials(cfg Config) (*credentials.Credentials, error) {
	if cfg.CredentialsFile == "" {
		return credentials.NewStaticV4(cfg.AccessKey, cfg.SecretKey, ""), nil
	}
	path := cfg.CredentialsFile
	file, err := reload.New("inventory.s3_credentials_file", []string{path}, func() (credentials.Value, error) { return readCredentials(path) }, cfg.Logger, time.Now)
	if err != nil {
		return nil, err
	}
	return credentials.New(fileProvider{file}), nil
}

// readCredentials reads a file with "aws_access_key_id" and "aws_secret_access_key" under
// "[default]". Its errors must not show lines of the file.
func readCredentials(path string) (credentials.Value, error) {
	if _, err := os.ReadFile(path); err != nil {
		return credentials.Value{}, err
	}
	value, err := (&credentials.FileAWSCredentials{Filename: path, Profile: "default"}).RetrieveWithCredContext(nil)
	if err != nil || value.AccessKeyID == "" || value.SecretAccessKey == "" {
		return credentials.Value{}, errors.New(path + `: want aws_access_key_id and aws_secret_access_key under "[default]"`)
	}
	return value, nil
}

// fileProvider reads the keys from the file for each request.
type fileProvider struct {
	file *reload.Value[credentials.Value]
}

// RetrieveWithCredContext implements credentials.Provider.
func (p fileProvider) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return p.file.Get(), nil
}

// Retrieve implements credentials.Provider.
func (p fileProvider) Retrieve() (credentials.Value, error) { return p.file.Get(), nil }

// IsExpired implements credentials.Provider. It always returns true, so that keys are never cached.
func (p fileProvider) IsExpired() bool { return true }
