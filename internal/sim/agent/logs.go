package agent

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
)

// logArchive returns the logs that a ramdisk collects, as a gzipped tar archive in base64.
func logArchive(version, hostname string, started time.Time, commands []resultDocument) (string, error) {
	var journal strings.Builder
	fmt.Fprintf(&journal, "%s %s ironic-python-agent[612]: simulated agent, version %s\n",
		started.UTC().Format(time.RFC3339), hostname, version)
	for _, c := range commands {
		fmt.Fprintf(&journal, "%s ironic-python-agent[612]: command %s %s is %s\n", hostname, c.Name, c.ID, c.Status)
	}
	var buffer bytes.Buffer
	compressed := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(compressed)
	for _, file := range []struct{ name, content string }{
		{"journal", journal.String()},
		{"ps", "    PID COMMAND\n      1 systemd\n    612 ironic-python-agent\n"},
	} {
		header := &tar.Header{Name: file.name, Mode: 0o644, Size: int64(len(file.content)), ModTime: started}
		if err := archive.WriteHeader(header); err != nil {
			return "", fmt.Errorf("write archive header of %s: %w", file.name, err)
		}
		if _, err := archive.Write([]byte(file.content)); err != nil {
			return "", fmt.Errorf("write %s into archive: %w", file.name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return "", fmt.Errorf("close archive: %w", err)
	}
	if err := compressed.Close(); err != nil {
		return "", fmt.Errorf("close compressor: %w", err)
	}
	return base64.StdEncoding.EncodeToString(buffer.Bytes()), nil
}
