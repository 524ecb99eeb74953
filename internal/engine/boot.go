package engine

import (
	"context"
	"errors"
	"time"

	"github.com/ingot-metal/ingot/internal/bootservice"
	"github.com/ingot-metal/ingot/internal/driver/netboot"
	"github.com/ingot-metal/ingot/internal/imagecache"
)

// boot is the boot service of an engine. The zero value is one that is off.
type boot struct {
	server *server
	images *imagecache.Cache
}

// listenBoot takes the address of the boot service, if there is one.
func (e *Engine) listenBoot(ctx context.Context) (err error) {
	if e.config.Boot.Listen != "" {
		e.boot.server, err = listen(ctx, "boot.listen", e.config.Boot.Listen)
	}
	return err
}

func (e *Engine) closeBoot(context.Context) error {
	if e.boot.server == nil {
		return nil
	}
	return e.boot.server.close()
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

// servedImages are the images that nodes can boot from; nil when nothing is served.
func (e *Engine) servedImages() netboot.Images {
	if e.boot.images == nil {
		return nil
	}
	return e.boot.images
}

// serveBoot answers machines.
func (e *Engine) serveBoot(context.Context) error {
	cfg := e.config.Boot
	if e.boot.server == nil {
		return nil
	}
	e.boot.server.share(cfg.MaxConnections, "boot.max_connections", e.log)
	e.boot.server.serve(bootservice.New(bootservice.Options{
		PublicURL: cfg.PublicURL, Database: e.store, Images: e.boot.images, Logger: e.log,
	}), nil, e.log, e.served)
	return nil
}

// transfersWithin is how long machines may finish what they download when the engine
// stops. They ask again for what is cut off.
const transfersWithin = 3 * time.Second

func (e *Engine) stopBoot(ctx context.Context) error {
	if e.boot.server == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, transfersWithin)
	defer cancel()
	err := e.boot.server.stop(bounded)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

// BootURL is where the boot service answers, empty when it is off.
func (e *Engine) BootURL() string {
	if e.boot.server == nil {
		return ""
	}
	return e.boot.server.url(nil)
}
