package bootservice

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/bootiso"
	"github.com/ingot-metal/ingot/internal/imagecache"
	"github.com/ingot-metal/ingot/internal/node"
)

// Limits of sending an image. The server's own limits are for short answers.
const (
	sendWithin  = time.Hour        // the whole answer, including the wait for the image's download
	writeWithin = 30 * time.Second // time in which a machine must take the next bytes, see deadlineWriter
	fetchWithin = 10 * time.Minute // wait for the image's download
)

// image returns a function that answers requests for an image of a boot, with Range and HEAD.
func image(source func(node.RamdiskBoot) string) func(*service, http.ResponseWriter, *http.Request, *node.Node, node.RamdiskBoot) error {
	return func(s *service, w http.ResponseWriter, r *http.Request, n *node.Node, boot node.RamdiskBoot) error {
		url := source(boot)
		if url == "" {
			return errNothing
		}
		return s.send(w, r, n, boot.Versions, []string{url}, first)
	}
}

// first returns the first image as it is.
func first(files []*imagecache.Image) (io.ReadSeeker, error) { return files[0], nil }

// medium answers the request for the virtual medium of a boot. The medium is an existing ISO image,
// or one that is made of other images while it is read.
func (s *service) medium(w http.ResponseWriter, r *http.Request, n *node.Node, boot node.RamdiskBoot) error {
	switch {
	case boot.ISO != "":
		return s.send(w, r, n, boot.Versions, []string{boot.ISO}, first)
	case boot.BootLoader == "":
		return errNothing
	}
	urls := []string{boot.Kernel, boot.Ramdisk, boot.BootLoader}
	commandLine := boot.KernelParams
	if !boot.ParametersMedium {
		commandLine = withToken(n, boot)
	}
	return s.send(w, r, n, boot.Versions, urls, func(files []*imagecache.Image) (io.ReadSeeker, error) {
		sources := make([]bootiso.Source, len(files))
		for i, file := range files {
			about, err := file.Stat()
			if err != nil {
				return nil, err
			}
			sources[i] = bootiso.Source{Content: file, Size: about.Size()}
		}
		image, err := bootiso.New(bootiso.Boot{
			Kernel: sources[0], Ramdisk: sources[1], BootLoader: sources[2], CommandLine: commandLine, NetworkData: boot.NetworkData,
		})
		if err != nil {
			return nil, err
		}
		return image.Reader(), nil
	})
}

// withToken returns the command line of a boot with the agent's token. It is for virtual media
// only, because everybody on a network can read what machines boot over it.
func withToken(n *node.Node, boot node.RamdiskBoot) string {
	token := agent.Pregenerated(n)
	if token == "" {
		return boot.KernelParams
	}
	return boot.KernelParams + " " + tokenParameter + "=" + token
}

// tokenParameter is the kernel parameter from which ironic-python-agent takes its token.
const tokenParameter = "ipa-agent-token"

// parameters answers the request for the virtual medium with the parameters of the agent.
func (s *service) parameters(w http.ResponseWriter, r *http.Request, n *node.Node, boot node.RamdiskBoot) error {
	if !boot.ParametersMedium {
		return errNothing
	}
	image, err := bootiso.Parameters(withToken(n, boot))
	if err != nil { // cannot happen: the boot interface has checked the parameters
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, image.Reader())
	return nil
}

// send answers a request for content that is made of images, with Range and HEAD.
func (s *service) send(w http.ResponseWriter, r *http.Request, n *node.Node, versions map[string]string, urls []string, content func([]*imagecache.Image) (io.ReadSeeker, error)) error {
	// Package http reads a request's body before it sends the answer, and below no read has a
	// deadline. A body that never arrives would keep the images in use forever.
	if r.ContentLength != 0 {
		return errNothing
	}
	control := http.NewResponseController(w)
	end := time.Now().Add(sendWithin)
	ctx, cancel := context.WithTimeout(r.Context(), fetchWithin)
	defer cancel()
	_ = control.SetReadDeadline(time.Time{}) // the server's deadline would end the request during the wait
	files, err := s.get(ctx, urls, versions)
	defer closeAll(files)
	_ = control.SetWriteDeadline(time.Now().Add(writeWithin)) // the download may have used up the server's time
	var body io.ReadSeeker
	if err == nil {
		body, err = content(files)
	}
	if err != nil {
		if r.Context().Err() == nil {
			s.failures.Log(time.Now(), slog.LevelWarn, "An image for a ramdisk cannot be served",
				slog.String("node", n.UUID), slog.Any("urls", urls), slog.Any("err", err))
		}
		return errors.Join(errBusy, err)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(&deadlineWriter{ResponseWriter: w, control: control, end: end}, r, "", latest(files), body)
	return nil
}

// get returns images, in the versions with which the boot has begun. With an error, it also returns
// the images that it has opened so far.
func (s *service) get(ctx context.Context, urls []string, versions map[string]string) (files []*imagecache.Image, err error) {
	for _, url := range urls {
		file, err := s.images.GetVersion(ctx, url, versions[url])
		if err != nil {
			return files, err
		}
		files = append(files, file)
	}
	return files, nil
}

func closeAll(files []*imagecache.Image) {
	for _, file := range files {
		_ = file.Close() // it was only read
	}
}

// latest returns when the newest of the images was changed.
func latest(files []*imagecache.Image) time.Time {
	var last time.Time
	for _, file := range files {
		if file.Modified.After(last) {
			last = file.Modified
		}
	}
	return last
}

// deadlineWriter ends an answer if the reader takes no bytes for writeWithin, or if the answer is
// not complete at the time end.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	end     time.Time
}

// Write writes a part of the answer. Package http writes 32 KiB at a time.
func (w *deadlineWriter) Write(part []byte) (int, error) {
	deadline := time.Now().Add(writeWithin)
	if deadline.After(w.end) {
		deadline = w.end
	}
	if err := w.control.SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return w.ResponseWriter.Write(part)
}
