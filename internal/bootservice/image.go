package bootservice

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

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
		control := http.NewResponseController(w)
		end := time.Now().Add(sendWithin)
		ctx, cancel := context.WithTimeout(r.Context(), fetchWithin)
		defer cancel()
		file, err := s.images.Get(ctx, url)
		_ = control.SetWriteDeadline(time.Now().Add(writeWithin)) // the download may have taken all of the server's
		if err != nil {
			if r.Context().Err() == nil {
				s.failures.Log(time.Now(), slog.LevelWarn, "An image for a ramdisk cannot be served",
					slog.String("node", n.UUID), slog.String("url", url), slog.Any("err", err))
			}
			return errors.Join(errBusy, err)
		}
		defer func() { _ = file.Close() }() // it was only read
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(&patientWriter{ResponseWriter: w, control: control, end: end}, r, "", file.Modified, file)
		return nil
	}
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
