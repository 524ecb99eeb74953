package agent

import (
	"context"
	"crypto/md5"  //nolint:gosec // images may have such checksums
	"crypto/sha1" //nolint:gosec // the same
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/disk"
)

// Downloads of images, with the defaults of the real agent.
const (
	downloadAttempts = 3
	downloadPause    = 10 * time.Second
	responseTimeout  = 60 * time.Second // until the answer begins
	maxChecksums     = 1 << 20          // bytes of a file of checksums
	maxExcerpt       = 2 << 10          // bytes of an error page that the error repeats
)

// algorithms of checksums, by their names in Python.
var algorithms = map[string]func() hash.Hash{
	"md5": md5.New, "sha1": sha1.New, "sha224": sha256.New224, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New,
}

// algorithmOf has the algorithm of a checksum whose algorithm is not named, by the number of hex
// digits.
var algorithmOf = map[int]string{32: "md5", 64: "sha256", 128: "sha512"}

// checksum is what an image is compared with.
type checksum struct{ algorithm, value string }

// download fetches an image into a writer and verifies it. The error has the words of the real
// agent. The returned image describes what was read, even with an error.
func (x *execution) download(info imageInfo, w *disk.Writer, device string) (disk.Image, *commandError) {
	var image disk.Image
	wanted, failure := x.checksum(info)
	if failure != nil {
		return image, failure
	}
	body, source, failure := x.openImage(info)
	if failure != nil {
		return image, failure
	}
	defer body.Close()
	// An ID with a slash names a folder below /tmp that does not exist.
	if location := x.destination(info, device); !info.streams() && strings.Contains(info.ID, "/") {
		return image, executionError(fmt.Sprintf("[Errno 2] No such file or directory: '%s'", location))
	}
	sum := algorithms[wanted.algorithm]()
	_, err := io.Copy(io.MultiWriter(sum, w), body)
	image, backing := w.Image()
	if info.streams() { // the real agent does not look into the bytes
		image, backing = w.Raw(), false
	}
	image.URL, image.Algorithm, image.Checksum = source, wanted.algorithm, hex.EncodeToString(sum.Sum(nil))
	if x.fate.BadChecksum {
		image.Checksum = strings.Repeat("0", len(image.Checksum))
	}
	switch {
	case errors.Is(err, disk.ErrFull) || x.fate.DiskFull && info.streams():
		return image, x.fullDisk(info, device)
	case err != nil:
		return image, downloadError(info.ID, fmt.Sprintf("Unable to write image to %s. Error: %v", x.destination(info, device), err))
	case !strings.EqualFold(image.Checksum, wanted.value):
		return image, checksumError(info.ID, wanted.value, image.Checksum)
	case backing:
		return image, writeError(device, fmt.Sprintf("qemu-img: Could not open '/tmp/%s': Could not open backing file", info.ID))
	}
	return image, nil
}

// fullDisk returns the error of an image that is larger than the disk.
func (x *execution) fullDisk(info imageInfo, device string) *commandError {
	if info.streams() {
		return downloadError(info.ID, fmt.Sprintf("Unable to write image to device %s. Error: [Errno 28] No space left on device", device))
	}
	return writeError(device, fmt.Sprintf("qemu-img: %s: error while converting host_device: Device is too small", device))
}

// destination returns where the bytes of an image go, as error texts name it.
func (x *execution) destination(info imageInfo, device string) string {
	if info.streams() {
		return "device " + device
	}
	return "/tmp/" + info.ID
}

// checksum returns what an image is compared with.
func (x *execution) checksum(info imageInfo) (c checksum, failure *commandError) {
	c = checksum{info.HashAlgo, info.HashValue}
	if algorithms[c.algorithm] == nil {
		c = checksum{value: info.Checksum}
	}
	if c.value == "" {
		return c, plainError(fmt.Sprintf("Unable to verify image %s with available checksums. Please make sure the specified 'os_hash_algo' "+
			"(currently %s) is supported by this ramdisk, or provide a md5 checksum via the 'checksum' field", info.ID, info.HashAlgo))
	}
	if strings.HasPrefix(c.value, "http://") || strings.HasPrefix(c.value, "https://") {
		if c.value, failure = x.fetchChecksum(c.value, path.Base(pathOf(info.URLs[0]))); failure != nil {
			return c, failure
		}
	}
	if c.algorithm == "" {
		c.algorithm = algorithmOf[len(c.value)]
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case c.algorithm == "":
		return c, plainError("Unable to determine the checksum algorithm of image " + info.ID)
	case c.algorithm == "md5" && !x.md5Allowed:
		return c, plainError("MD5 support is disabled, and support will be removed in a 2024 version of Ironic.")
	}
	return c, nil
}

func pathOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	return u.Path
}

// fetchChecksum downloads a file of checksums and returns the checksum of the file name. A file
// with only one word has the checksum of any file.
func (x *execution) fetchChecksum(location, name string) (string, *commandError) {
	answer, failure := x.get(location, location)
	if failure != nil {
		return "", failure
	}
	defer answer.Close()
	text, err := io.ReadAll(io.LimitReader(answer, maxChecksums))
	if err != nil {
		return "", downloadError(location, err.Error())
	}
	lines := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) == 0 {
		return "", downloadError(location, "Empty checksum file")
	}
	if fields := strings.Fields(lines[0]); len(lines) == 1 && len(fields) == 1 {
		return fields[0], nil
	}
	for _, line := range lines {
		if fields := strings.Fields(line); len(fields) == 2 && strings.TrimPrefix(fields[1], "*") == name {
			return fields[0], nil
		}
	}
	return "", downloadError(location, "Checksum file does not contain name "+name)
}

// openImage begins to download an image from the first URL that has it. If no URL does, it tries
// all of them again after a pause.
func (x *execution) openImage(info imageInfo) (io.ReadCloser, string, *commandError) {
	began := x.clock.Now()
	for attempt := 1; ; attempt++ {
		var details []string
		for _, location := range info.URLs {
			body, failure := x.get(location, info.ID)
			if failure == nil {
				return body, location, nil
			}
			if failure.Type != "ImageDownloadError" {
				return nil, "", failure
			}
			details = append(details, fmt.Sprintf("URL: %s; time: %v seconds. Error: %s",
				location, x.elapsed(began), strings.TrimPrefix(failure.Details, "Download of image "+info.ID+" failed: ")))
		}
		if attempt == downloadAttempts || !x.commands.pause(x.clock, downloadPause) {
			return nil, "", downloadError(info.ID, strings.Join(details, "\n "))
		}
	}
}

// get makes one request. It returns the body of the answer, which must have status 200.
func (x *execution) get(location, imageID string) (io.ReadCloser, *commandError) {
	ctx, cancel := context.WithCancel(x.commands.ctx)
	silent := time.AfterFunc(responseTimeout, cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, location, http.NoBody)
	if err == nil && request.URL.Scheme != "http" && request.URL.Scheme != "https" {
		err = fmt.Errorf("No connection adapters were found for '%s'", location) //nolint:staticcheck // the words of the real agent
	}
	if err != nil {
		cancel()
		return nil, executionError(err.Error())
	}
	request.Header.Set("User-Agent", userAgent)
	answer, err := x.config.Downloads.Do(request)
	if !silent.Stop() && err == nil {
		err = errors.Join(errors.New("Read timed out"), answer.Body.Close())
	}
	if err != nil {
		cancel()
		return nil, executionError(fmt.Sprintf("HTTPConnectionPool(host='%s', port=%s): Max retries exceeded with url: %s (Caused by %v)",
			request.URL.Hostname(), portOf(request.URL), request.URL.RequestURI(), err))
	}
	if answer.StatusCode != http.StatusOK {
		excerpt, _ := io.ReadAll(io.LimitReader(answer.Body, maxExcerpt)) // a part of the page is enough
		_ = answer.Body.Close()
		cancel()
		return nil, downloadError(imageID, fmt.Sprintf("Received status code %d from %s, expected 200. Response body: %s",
			answer.StatusCode, location, excerpt))
	}
	return download{answer.Body, cancel}, nil
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// download is the body of an answer. To close it ends the request.
type download struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Read fails when nothing arrives for responseTimeout.
func (d download) Read(p []byte) (int, error) {
	silent := time.AfterFunc(responseTimeout, d.cancel)
	n, err := d.ReadCloser.Read(p)
	if !silent.Stop() {
		err = errors.New("Timed out reading next chunk from webserver") //nolint:staticcheck // the words of the real agent
	}
	return n, err
}

func (d download) Close() error {
	defer d.cancel()
	return d.ReadCloser.Close()
}
