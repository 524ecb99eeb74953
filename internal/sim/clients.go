package sim

import (
	"crypto/tls"
	"net/http"
	"time"
)

// Connections that all agents share.
const (
	maxConnections = 256
	idleConnection = 90 * time.Second
	headerTimeout  = time.Minute // of downloads
)

// clients are the HTTP clients of all machines. Downloads have clients of their own, so that slow
// ones take no connections from heartbeats.
type clients struct {
	engine, downloads                 *http.Client
	insecureEngine, insecureDownloads *http.Client // verify no certificate
	own                               []*http.Client
}

func newClients(o Options) clients {
	insecure := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // for ramdisks that are told so on their command lines
	c := clients{
		engine: newClient(o.EngineTLS, 0), downloads: newClient(o.EngineTLS, headerTimeout),
		insecureEngine: newClient(insecure, 0), insecureDownloads: newClient(insecure, headerTimeout),
	}
	c.own = []*http.Client{c.engine, c.downloads, c.insecureEngine, c.insecureDownloads}
	if o.Client != nil {
		c.engine = o.Client
	}
	return c
}

// of returns the clients of a ramdisk.
func (c clients) of(insecure bool) (engine, downloads *http.Client) {
	if insecure {
		return c.insecureEngine, c.insecureDownloads
	}
	return c.engine, c.downloads
}

// close closes connections that nobody uses.
func (c clients) close() {
	for _, client := range c.own {
		client.CloseIdleConnections()
	}
}

// newClient returns an HTTP client with a bounded number of connections; requests beyond the bound
// wait. begin is how long an answer may take to begin; 0 is no limit.
func newClient(config *tls.Config, begin time.Duration) *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxConnsPerHost:       maxConnections,
		MaxIdleConnsPerHost:   maxConnections,
		IdleConnTimeout:       idleConnection,
		ResponseHeaderTimeout: begin,
		DisableCompression:    true,
		TLSClientConfig:       config,
	}}
}
