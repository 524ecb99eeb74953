package engine

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/bootservice"
	"github.com/ingot-metal/ingot/internal/driver/netboot"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/imagecache"
)

// boot is the boot service of an engine. The zero value means that the service is off.
type boot struct {
	server *server
	tls    *tls.Config // nil means plain http
	ipxe   *server     // for machines that boot over the network, without TLS; nil if server serves them
	images *imagecache.Cache
}

// listenBoot takes the addresses of the boot service, if there is one.
func (e *Engine) listenBoot(ctx context.Context) (err error) {
	cfg := e.config.Boot
	if cfg.Listen == "" {
		return nil
	}
	if cfg.tls() {
		pair, err := newPair("boot", cfg.TLSCertificate, cfg.TLSKey, e.log, time.Now)
		if err != nil {
			return err
		}
		e.boot.tls = newTLS(pair)
	}
	if e.boot.server, err = listen(ctx, "boot.listen", cfg.Listen); err != nil || cfg.IPXEListen == "" {
		return err
	}
	if e.boot.ipxe, err = listen(ctx, "boot.ipxe_listen", cfg.IPXEListen); err != nil {
		return errors.Join(err, e.boot.server.close())
	}
	return nil
}

// servers returns the servers of the boot service that are set up.
func (b boot) servers() []*server {
	return slices.DeleteFunc([]*server{b.server, b.ipxe}, func(s *server) bool { return s == nil })
}

func (e *Engine) closeBoot(context.Context) error {
	var errs []error
	for _, server := range e.boot.servers() {
		errs = append(errs, server.close())
	}
	return errors.Join(errs...)
}

// openImages opens the cache of images of the boot service.
func (e *Engine) openImages(context.Context) (err error) {
	if e.boot.server != nil {
		e.boot.images, err = e.config.Boot.openImages(e.config.Database.Dir, e.log)
	}
	return err
}

func (e *Engine) closeImages(context.Context) error {
	if e.boot.images == nil {
		return nil
	}
	return e.boot.images.Close()
}

// servedImages returns the images that nodes can boot from, or nil when the boot service is off.
func (e *Engine) servedImages() netboot.Images {
	if e.boot.images == nil {
		return nil
	}
	return e.boot.images
}

// firmwareFiles returns the settings of where BMCs get firmware files.
func (e *Engine) firmwareFiles() redfish.FileOptions {
	options := redfish.FileOptions{URL: strings.TrimSuffix(e.config.Boot.PublicURL, "/"), Source: e.config.Redfish.FirmwareSource}
	if e.boot.images != nil {
		options.Files = e.boot.images
	}
	return options
}

// serveBoot starts to answer the requests of machines.
func (e *Engine) serveBoot(context.Context) error {
	cfg := e.config.Boot
	if e.boot.server == nil {
		return nil
	}
	options := bootservice.Options{ScriptURL: cmp.Or(cfg.IPXEURL, cfg.PublicURL), Database: e.store, Images: e.boot.images, Logger: e.log}
	e.boot.server.share(cfg.MaxConnections, "boot.max_connections", e.log)
	e.boot.server.serve(bootservice.New(options), e.boot.tls, e.log, e.served)
	if e.boot.ipxe != nil {
		options.NetworkOnly = true
		e.boot.ipxe.share(cfg.MaxConnections, "boot.max_connections", e.log)
		e.boot.ipxe.serve(bootservice.New(options), nil, e.log, e.served)
	}
	return nil
}

// transfersWithin is how long machines may finish their downloads when the engine stops. They
// repeat downloads that are cut off.
const transfersWithin = 3 * time.Second

func (e *Engine) stopBoot(ctx context.Context) error {
	deadline := time.Now().Add(transfersWithin)
	var errs []error
	for _, server := range e.boot.servers() {
		errs = append(errs, server.stopBy(ctx, deadline))
	}
	return errors.Join(errs...)
}

// BootURL returns the URL of the boot service, empty when the service is off.
func (e *Engine) BootURL() string {
	if e.boot.server == nil {
		return ""
	}
	return e.boot.server.url(e.boot.tls)
}
