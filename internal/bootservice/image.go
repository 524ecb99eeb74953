package bootservice

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

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
		return s.send(w, r, n, []string{url}, func(files []*imagecache.Image) (io.ReadSeeker, error) { return files[0], nil })
	}
}

// medium answers the virtual medium of a boot, which is made of its images while it is
// read.
func (s *service) medium(w http.ResponseWriter, r *http.Request, n *node.Node, boot node.RamdiskBoot) error {
	if boot.BootLoader == "" {
		return errNothing
	}
	urls := []string{boot.Kernel, boot.Ramdisk, boot.BootLoader}
	return s.send(w, r, n, urls, func(files []*imagecache.Image) (io.ReadSeeker, error) {
		sources := make([]bootiso.Source, len(files))
		for i, file := range files {
			about, err := file.Stat()
			if err != nil {
				return nil, err
			}
			sources[i] = bootiso.Source{Content: file, Size: about.Size()}
		}
		image, err := bootiso.New(bootiso.Boot{
			Kernel: sources[0], Ramdisk: sources[1], BootLoader: sources[2], CommandLine: boot.KernelParams,
		})
		if err != nil {
			return nil, err
		}
		return image.Reader(), nil
	})
}

// send answers what is made of images, with Range and HEAD.
func (s *service) send(w http.ResponseWriter, r *http.Request, n *node.Node, urls []string, content func([]*imagecache.Image) (io.ReadSeeker, error)) error {
	control := http.NewResponseController(w)
	end := time.Now().Add(sendWithin)
	ctx, cancel := context.WithTimeout(r.Context(), fetchWithin)
	defer cancel()
	_ = control.SetReadDeadline(time.Time{}) // that of the server would end the request during the wait
	files, err := s.get(ctx, urls)
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

// get gets images. It returns those that it has got also with an error.
func (s *service) get(ctx context.Context, urls []string) (files []*imagecache.Image, err error) {
	for _, url := range urls {
		file, err := s.images.Get(ctx, url)
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
