package operator

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	certutil "k8s.io/client-go/util/cert"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Files of MetricsCertDir, named as in a Secret of type kubernetes.io/tls.
const (
	certFile = "tls.crt"
	keyFile  = "tls.key"
)

// metricsOptions says how metrics are served. Unless MetricsInsecure is set, they are served over
// TLS and only to callers with a token that the API server knows and the right to get the path
// /metrics there.
func (o *Options) metricsOptions() (metricsserver.Options, error) {
	m := metricsserver.Options{BindAddress: addrOrOff(o.MetricsAddr)}
	if o.MetricsAddr == "" || o.MetricsInsecure {
		return m, nil
	}
	m.SecureServing, m.FilterProvider = true, onlyAuthorized
	m.TLSOpts = []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion = tls.VersionTLS12
		// HTTP/2 would let one connection carry any number of requests.
		c.NextProtos = []string{"http/1.1"}
	}}
	if o.MetricsCertDir != "" {
		m.CertDir, m.CertName, m.KeyName = o.MetricsCertDir, certFile, keyFile
		return m, nil
	}
	pair, err := selfSigned()
	if err != nil {
		return m, fmt.Errorf("make a certificate for metrics: %w", err)
	}
	// GetCertificate has to be set. Otherwise the server would look for files in a folder for
	// temporary files, which anybody on the machine could create.
	m.TLSOpts = append(m.TLSOpts, func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair, nil }
	})
	return m, nil
}

// selfSigned makes a self-signed certificate for this process.
func selfSigned() (*tls.Certificate, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	cert, key, err := certutil.GenerateSelfSignedCertKeyWithFixtures(hostname, []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}, "")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	return &pair, err
}

// checkMetrics returns an error if options of metrics contradict each other or the certificate
// cannot be read.
func (o *Options) checkMetrics() error {
	if o.MetricsAddr == "" {
		return nil
	}
	if !o.MetricsInsecure {
		if o.MetricsCertDir == "" {
			return nil
		}
		return o.checkMetricsCert()
	}
	if o.MetricsCertDir != "" {
		return errors.New("metrics without TLS need no certificate: leave out one of --metrics-insecure and --metrics-cert-dir")
	}
	host, _, err := net.SplitHostPort(o.MetricsAddr)
	if err != nil {
		return fmt.Errorf("address of metrics %q: %w", o.MetricsAddr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("metrics without authentication are for loopback only, and %q is not: "+
			"give --metrics-addr an address such as 127.0.0.1:8080, or leave out --metrics-insecure", o.MetricsAddr)
	}
	return nil
}

// checkMetricsCert loads the certificate once, to find errors early. Later the server follows
// changes of the files.
func (o *Options) checkMetricsCert() error {
	_, err := tls.LoadX509KeyPair(filepath.Join(o.MetricsCertDir, certFile), filepath.Join(o.MetricsCertDir, keyFile))
	if err != nil {
		return fmt.Errorf("read the certificate of metrics, %s and %s in %s: %w", certFile, keyFile, o.MetricsCertDir, err)
	}
	return nil
}
