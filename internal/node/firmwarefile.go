package node

import (
	"crypto/subtle"
	"encoding/hex"
	"net/url"
	"path"
	"strings"
)

// FirmwareFileKey is the key of driver_internal_info for the FirmwareFile of a node.
const FirmwareFileKey = "firmware_file"

// FirmwareFile is the firmware that the engine serves to the BMC of a node. It is stored in
// the node before the BMC hears of it, so that each engine of the database serves it, and
// removed when the update ends.
type FirmwareFile struct {
	// Secret is part of the URL: 128 random bits as 32 hexadecimal digits.
	Secret string `json:"secret"`
	// URL is where the engine gets the file, with the checksum that it must have if one
	// is known.
	URL     string `json:"url"`
	Version string `json:"version,omitempty"` // of the file; the BMC gets no other
	// Name ends the URL for the BMC. BMCs tell the kind of a file by it.
	Name string `json:"name"`
}

// NewFirmwareFile returns a file that is served with a secret of its own.
func NewFirmwareFile(from, version string) FirmwareFile {
	return FirmwareFile{Secret: NewBootSecret(), URL: from, Version: version, Name: firmwareName(from)}
}

// maxFirmwareName bounds names that BMCs get, in bytes.
const maxFirmwareName = 100

// firmwareName is the last part of the path of a URL, as far as every BMC can read it.
func firmwareName(from string) string {
	name := ""
	if u, err := url.Parse(from); err == nil {
		name = path.Base(u.Path)
	}
	name = strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, name)
	name = name[max(0, len(name)-maxFirmwareName):]
	if strings.Trim(name, "._") == "" {
		return "firmware.bin"
	}
	return name
}

// FirmwareFileOf returns the firmware that is served to the node's BMC; false when none is.
func FirmwareFileOf(n *Node) (FirmwareFile, bool) {
	var file FirmwareFile
	ok := n.DriverInternalInfo.Get(FirmwareFileKey, &file) && len(file.Secret) == hex.EncodedLen(secretBytes)
	return file, ok
}

// StoreIn makes f what is served to the node's BMC.
func (f FirmwareFile) StoreIn(n *Node) {
	n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{FirmwareFileKey: f})
}

// WithdrawFirmwareFile ends what is served to the node's BMC.
func WithdrawFirmwareFile(n *Node) {
	n.DriverInternalInfo = n.DriverInternalInfo.Without(FirmwareFileKey)
}

// Opens reports whether a secret is that of the file. It takes the same time for all wrong
// ones of the same length.
func (f FirmwareFile) Opens(secret string) bool {
	return subtle.ConstantTimeCompare([]byte(f.Secret), []byte(secret)) == 1
}

// Path is the path of the URL at which the boot service serves the file to the BMC of the
// node with the UUID.
func (f FirmwareFile) Path(uuid string) string {
	return bootPath + uuid + "/" + f.Secret + "/firmware/" + f.Name
}
