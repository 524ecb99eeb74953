package bmctest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/ingot-metal/ingot/internal/driver/redfish"
)

// renewBefore is how long before its expiry a certificate should be renewed.
const renewBefore = 30 * 24 * time.Hour

// certificate examines the certificate of the BMC. It uses its own connection, which ends before
// the driver opens one.
func (t *redfishTest) certificate(ctx context.Context) (finding, error) {
	endpoint, err := t.driver.Endpoint(t.node)
	if err != nil {
		return finding{}, err
	}
	at, err := url.Parse(endpoint)
	if err != nil {
		return finding{}, err
	}
	if at.Scheme == "http" {
		return finding{fails: true, text: "the address has no TLS: everybody on the way can read the password", advice: "Use https."}, nil
	}
	port := at.Port()
	if port == "" {
		port = "443"
	}
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: at.Hostname(), CipherSuites: redfish.CipherSuites()}} //nolint:gosec // it is verified below, and nothing is sent
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(at.Hostname(), port))
	if err != nil {
		return finding{}, err
	}
	defer func() { _ = conn.Close() }() // nothing was sent
	encrypted, ok := conn.(*tls.Conn)
	if !ok || len(encrypted.ConnectionState().PeerCertificates) == 0 {
		return finding{}, errors.New("the BMC shows no certificate")
	}
	roots, err := t.authorities()
	if err != nil {
		return finding{}, err
	}
	return judge(encrypted.ConnectionState().PeerCertificates, roots, at.Hostname(), time.Now()), nil
}

// authorities returns the authorities that the test trusts. Nil means those of the computer.
func (t *redfishTest) authorities() (*x509.CertPool, error) {
	if t.options.CAFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(t.options.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authorities: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read the certificate authorities: %s holds no PEM certificate", t.options.CAFile)
	}
	return roots, nil
}

// judge says whose certificate it is, until when it is valid, and whether an engine trusts it. The
// first certificate of the chain is the BMC's own.
func judge(chain []*x509.Certificate, roots *x509.CertPool, host string, now time.Time) finding {
	own := chain[0]
	others := x509.NewCertPool()
	for _, one := range chain[1:] {
		others.AddCert(one)
	}
	text := fmt.Sprintf("issued by %s, valid until %s", own.Issuer, own.NotAfter.UTC().Format(time.DateOnly))
	_, err := own.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: others, CurrentTime: now})
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.As(err, &name):
		return finding{fails: true, text: text + ", not for the address " + host, advice: "Give the BMC a certificate for this address, or set redfish_verify_ca of the node to false (--insecure)."}
	case errors.As(err, &unknown):
		return finding{fails: true, text: text + ", of an unknown authority", advice: "Set redfish_verify_ca of the node to a file with the authority (--ca-file), or to false (--insecure)."}
	case err != nil:
		return finding{fails: true, text: text + ": " + err.Error(), advice: "Renew it on the BMC and check the clock, or set redfish_verify_ca of the node to false (--insecure)."}
	case own.NotAfter.Sub(now) < renewBefore:
		return finding{text: text, advice: "Renew it on the BMC soon."}
	}
	return finding{text: text + ", for this address"}
}
