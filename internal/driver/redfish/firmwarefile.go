package redfish

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Files gets firmware files for the boot service.
type Files interface {
	// Check returns what is wrong with the URL of a file, as the end of a sentence about
	// it. It waits for nothing.
	Check(url string) error
	// PrepareTemporary gets a file, so that it can be served at once, and returns its
	// version. It returns the error of ctx while that takes longer. The file is removed
	// when nobody has used it for a while.
	PrepareTemporary(ctx context.Context, url string) (version string, err error)
}

// FileOptions say how BMCs get firmware files.
type FileOptions struct {
	// Files gets the files that the engine serves; nil means that it serves none.
	Files Files
	// URL is the beginning of the URLs of served files.
	URL string
	// Source says where BMCs get their files when the node does not say: FromEngine or FromServer.
	// Empty means FromEngine if the engine serves files, else FromServer.
	Source string
}

// Sources of firmware files, as Ironic's option firmware_source names them.
const (
	FromEngine = "local"
	FromServer = "http"
)

// sourceKey is the key of driver_info that replaces FileOptions.Source.
const sourceKey = "firmware_source"

// Bounds of fetching a firmware file.
const (
	fileWithin = 30 * time.Minute // before the update fails
	fileWait   = 2 * time.Second  // in one turn
	filePause  = 3 * time.Second  // between two turns
)

// checksumLengths are the algorithms of checksums by their number of hexadecimal digits.
var checksumLengths = map[int]string{40: "sha1", 64: "sha256", 128: "sha512"}

// serves reports whether the node's BMC gets its firmware from the engine.
func (o FileOptions) serves(n *node.Node) (bool, error) {
	source := n.DriverInfo.Text(sourceKey)
	if source == "" {
		source = o.Source
	}
	switch {
	case source == "":
		return o.Files != nil, nil
	case source == FromServer:
		return false, nil
	case source == FromEngine && o.Files == nil:
		return false, node.Invalid("The engine cannot serve firmware to node %s: set boot.listen and boot.public_url in its configuration, or driver_info.%s to %s.",
			n.UUID, sourceKey, FromServer)
	case source == FromEngine:
		return true, nil
	}
	return false, node.Invalid("%s of node %s is %q: want %s or %s.", sourceKey, n.UUID, node.CutText(source), FromEngine, FromServer)
}

// withChecksum returns the URL of a file with its checksum, as the image cache reads it.
func withChecksum(address, sum string) (string, error) {
	if sum == "" {
		return address, nil
	}
	algorithm, known := checksumLengths[len(sum)]
	if !known || strings.Trim(strings.ToLower(sum), "0123456789abcdef") != "" {
		return "", errors.New("is no SHA-1, SHA-256 or SHA-512 in hexadecimal digits")
	}
	if strings.Contains(address, "#") {
		return "", errors.New("is given beside the one in the URL")
	}
	return address + "#" + algorithm + "=" + strings.ToLower(sum), nil
}

// checkFiles returns a *node.ValidationError for a file that cannot be used: one with a checksum
// that nobody would check, or one that the engine cannot serve.
func (o FileOptions) checkFiles(n *node.Node, step node.Step, files []firmwareFile, served bool) error {
	for _, file := range files {
		_, sum, summed := strings.Cut(file.url, "#")
		if !served && summed {
			return node.Invalid("The step %s of node %s has the checksum %s, which nobody would check: its BMC fetches the file itself. "+
				"Remove the checksum, or set driver_info.%s to %s.", step.Name(), n.UUID, node.CutText(sum), sourceKey, FromEngine)
		}
		if !served {
			continue
		}
		if err := o.Files.Check(file.url); err != nil {
			return node.Invalid("The URL %s in the step %s of node %s %s.", node.CutText(file.url), step.Name(), n.UUID, err)
		}
	}
	return nil
}

// fetch makes a turn of getting a file. When the engine has the file, the outcome stores in the
// node which file is served.
func (o FileOptions) fetch(ctx context.Context, file firmwareFile, turn driver.Turn, r record) (driver.Outcome, error) {
	bounded, cancel := context.WithTimeout(ctx, fileWait)
	defer cancel()
	version, err := o.Files.PrepareTemporary(bounded, file.url)
	failed := func(reason string) error {
		return &node.DriverError{Op: "update the firmware of " + file.component, Refused: true, Reason: node.CutText("the file " + file.url + " " + reason)}
	}
	began := time.Duration(r.Update.Began * float64(time.Second))
	switch {
	case err == nil:
		served := node.NewFirmwareFile(file.url, version)
		return r.outcome(driver.Outcome{Again: driver.NextTurn, Phase: servedPhase, Apply: served.StoreIn}), nil
	case ctx.Err() != nil:
		return driver.Outcome{}, ctx.Err()
	case bounded.Err() == nil || !errors.Is(err, bounded.Err()):
		return driver.Outcome{}, failed("cannot be fetched: " + err.Error())
	case turn.Elapsed-began > fileWithin:
		return driver.Outcome{}, failed("was not fetched within " + fileWithin.String())
	}
	return r.outcome(driver.Outcome{Park: filePause, Phase: fetchPhase}), nil
}

// urlFor returns the URL from which the BMC gets a file.
func (o FileOptions) urlFor(n *node.Node, file firmwareFile) (string, error) {
	served, err := o.serves(n)
	if err != nil || !served {
		return file.url, err
	}
	record, ok := node.FirmwareFileOf(n)
	if !ok || record.URL != file.url {
		return "", &node.DriverError{Op: "update the firmware of " + file.component, Refused: true, Reason: "the file that was served for it was withdrawn meanwhile: request the work again."}
	}
	return o.URL + record.Path(n.UUID), nil
}
