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

// Bounds of sending an image. The server's own bounds are for short answers.
const (
	sendWithin  = time.Hour        // all of it, with the wait for its download
	writeWithin = 30 * time.Second // what a machine takes at a time, see patientWriter
	fetchWithin = 10 * time.Minute // the wait for the download
)

// image returns what answers an image of a boot, with Range and HEAD.
func image(source func(node.RamdiskBoot) string) func(*service, http.ResponseWriter, *http.Request, *node.Node, node.RamdiskBoot) error {
	return func(s *service, w http.ResponseWriter, r *http.Request, n *node.Node, boot node.RamdiskBoot) error {
		url := source(boot)
		if url == "" {
			return errNothing
		}
		return s.send(w, r, n, boot.Versions, []string{url}, first)
	}
}

// first is an image as it is.
func first(files []*imagecache.Image) (io.ReadSeeker, error) { return files[0], nil }

// medium answers the virtual medium of a boot: an ISO that somebody else has made, or one
// that is made of images while it is read.
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

// withToken is the command line of a boot with the token that its agent gets from virtual
// media only: everybody on a network can read what machines boot over it.
func withToken(n *node.Node, boot node.RamdiskBoot) string {
	token := agent.Pregenerated(n)
	if token == "" {
		return boot.KernelParams
	}
	return boot.KernelParams + " " + tokenParameter + "=" + token
}

// tokenParameter is the kernel parameter that ironic-python-agent takes its token from.
const tokenParameter = "ipa-agent-token"

// parameters answers the virtual medium with the parameters of the agent.
func (s *service) parameters(w http.ResponseWriter, r *http.Request, n *node.Node, boot node.RamdiskBoot) error {
	if !boot.ParametersMedium {
		return errNothing
	}
	image, err := bootiso.Parameters(withToken(n, boot))
	if err != nil { // the boot interface has checked the parameters
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, image.Reader())
	return nil
}

// send answers what is made of images, with Range and HEAD.
func (s *service) send(w http.ResponseWriter, r *http.Request, n *node.Node, versions map[string]string, urls []string, content func([]*imagecache.Image) (io.ReadSeeker, error)) error {
	// Package http reads a body before it sends the answer, and below no read has a deadline:
	// a body that does not come would keep the images in use for good.
	if r.ContentLength != 0 {
		return errNothing
	}
	control := http.NewResponseController(w)
	end := time.Now().Add(sendWithin)
	ctx, cancel := context.WithTimeout(r.Context(), fetchWithin)
	defer cancel()
	_ = control.SetReadDeadline(time.Time{}) // that of the server would end the request during the wait
	files, err := s.get(ctx, urls, versions)
	defer closeAll(files)
	_ = control.SetWriteDeadline(time.Now().Add(writeWithin)) // the download may have taken all of the server's
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
	http.ServeContent(&patientWriter{ResponseWriter: w, control: control, end: end}, r, "", latest(files), body)
	return nil
}

// get gets images, in the versions that the boot has begun with. It returns those that it
// has got also with an error.
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

// latest is when the last of the images was changed.
func latest(files []*imagecache.Image) time.Time {
	var last time.Time
	for _, file := range files {
		if file.Modified.After(last) {
			last = file.Modified
		}
	}
	return last
}

// patientWriter ends an answer whose reader takes nothing for a while, or is not done at
// the end.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	end     time.Time
}

// Write writes a part of the answer. Package http writes 32 KiB at a time.
func (w *patientWriter) Write(part []byte) (int, error) {
	deadline := time.Now().Add(writeWithin)
	if deadline.After(w.end) {
		deadline = w.end
	}
	if err := w.control.SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return w.ResponseWriter.Write(part)
}
