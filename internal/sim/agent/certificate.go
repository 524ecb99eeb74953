package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"time"
)

const (
	certificateLifetime = 90 * 24 * time.Hour
	certificateSkew     = time.Hour // tolerated difference of clocks
)

// newCertificate makes a self-signed certificate for one address, as the
// ramdisk does at every boot: an elliptic curve key, the host name as common
// name, the address as the only alternative name. It returns the pair for the
// server and the certificate in PEM form for the engine.
func newCertificate(hostname string, address netip.Addr, now time.Time) (tls.Certificate, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("generate a key for %s: %w", address, err)
	}
	number, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 159))
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("draw a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: number,
		Subject:      pkix.Name{CommonName: hostname},
		NotBefore:    now.Add(-certificateSkew),
		NotAfter:     now.Add(certificateLifetime),
		IPAddresses:  []net.IP{address.AsSlice()},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("sign the certificate of %s: %w", address, err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(text), nil
}
