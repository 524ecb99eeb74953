package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/loglimit"
)

// failuresASecond and failuresAtOnce limit the log lines about clients that refuse the certificate,
// per second and in a burst, and likewise those about clients that speak plain HTTP.
const (
	failuresASecond = 1
	failuresAtOnce  = 20
)

// certificateAlerts are the alerts with which a client refuses the certificate of its
// server (RFC 8446, section 6.2).
var certificateAlerts = []tls.AlertError{
	42, // bad_certificate
	43, // unsupported_certificate
	44, // certificate_revoked
	45, // certificate_expired
	46, // certificate_unknown
	48, // unknown_ca
}

// refusesCertificate reports whether a handshake has failed because the client does not
// accept the certificate.
func refusesCertificate(err error) bool {
	var failed *net.OpError
	if !errors.As(err, &failed) || failed.Op != "remote error" {
		return false
	}
	return slices.ContainsFunc(certificateAlerts, func(alert tls.AlertError) bool { return alert.Error() == failed.Err.Error() })
}

// plainRequests are the first bytes of requests in plain HTTP, cut to the length of a TLS record's
// header.
var plainRequests = []string{"GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO"}

// speaksPlainHTTP reports whether a handshake has failed because the client sent an HTTP request
// instead.
func speaksPlainHTTP(err error) bool {
	var header tls.RecordHeaderError
	return errors.As(err, &header) && slices.Contains(plainRequests, string(header.RecordHeader[:]))
}

// watchHandshakes has the server log which clients refuse its certificate or speak no TLS. Such an
// agent sends nothing else, so this line alone says why its machine is silent. Call it before
// serve.
func (s *server) watchHandshakes(log *slog.Logger) {
	untrusting, plain := loglimit.New(log, failuresASecond, failuresAtOnce), loglimit.New(log, failuresASecond, failuresAtOnce)
	s.connState = func(conn net.Conn, state http.ConnState) {
		secured, isTLS := conn.(*tls.Conn)
		if !isTLS || state != http.StateClosed {
			return
		}
		remote := slog.String("remote", conn.RemoteAddr().String())
		// The connection is closed, so this only returns the result of its handshake again.
		switch err := secured.HandshakeContext(context.Background()); {
		case refusesCertificate(err):
			untrusting.Log(time.Now(), slog.LevelWarn, "A client refuses the certificate of the API", remote, slog.Any("err", err),
				slog.String("advice", "If it is a ramdisk, put the authority that signed api.tls_certificate into its image, and see that the certificate is valid and names the address in ipa-api-url"))
		case speaksPlainHTTP(err):
			plain.Log(time.Now(), slog.LevelWarn, "A client speaks plain HTTP to the API, which speaks TLS", remote,
				slog.String("advice", "If it is a ramdisk, begin ipa-api-url and ipa-inspection-callback-url with https://: the engine makes them of api.public_url, and a script of your own has them in its line of the kernel"))
		}
	}
}
