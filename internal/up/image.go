package up

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// imageSize is the size of the image, which contains only the signature of a boot sector.
const imageSize = 1 << 20

// imagePort is the port on which the image is served.
const imagePort = 8080

// imageAddress returns the address of the image. It is the same at each start, because objects in
// the cluster contain it.
func (o Options) imageAddress() netip.AddrPort {
	return netip.AddrPortFrom(o.part(3).Addr().Next(), imagePort)
}

// serveImage serves a small image that simulated machines are deployed with.
func (u *Up) serveImage(ctx context.Context) (string, error) {
	content := make([]byte, imageSize)
	content[510], content[511] = 0x55, 0xaa
	sum := sha256.Sum256(content)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", u.opts.imageAddress().String())
	if err != nil {
		return "", err
	}
	u.image, u.imageSum = "http://"+listener.Addr().String()+"/image.raw", hex.EncodeToString(sum[:])
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(content)))
	})}
	u.onStop("image", func(context.Context) error { return server.Close() })
	go func() { _ = server.Serve(listener) }() // until Close
	return "", nil
}
