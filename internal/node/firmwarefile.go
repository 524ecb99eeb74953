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

// FirmwareFile is the firmware that the engine serves to the BMC of a node. The engine stores it in
// the node before it tells the BMC, so that each engine of the database can serve the file, and
// removes it when the update ends.
type FirmwareFile struct {
	// Secret is part of the URL: 128 random bits as 32 hexadecimal digits.
	Secret string `json:"secret"`
	// URL is where the engine downloads the file. It includes the expected checksum if that is
	// known.
	URL     string `json:"url"`
	Version string `json:"version,omitempty"` // of the file; the engine serves the BMC no other version
	// Name is the last part of the URL that the BMC gets. BMCs tell the kind of a file by its name.
	Name string `json:"name"`
}

// NewFirmwareFile returns the file at a URL with a new secret.
func NewFirmwareFile(from, version string) FirmwareFile {
	return FirmwareFile{Secret: NewBootSecret(), URL: from, Version: version, Name: firmwareName(from)}
}

// maxFirmwareName bounds names that BMCs get, in bytes.
const maxFirmwareName = 100

// firmwareName returns the last part of the path of a URL, in a form that every BMC can read: other
// characters become "_", and only the last maxFirmwareName bytes stay. It returns "firmware.bin"
// when nothing useful is left.
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

// FirmwareFileOf returns the firmware that the engine serves to the node's BMC; false when there is
// none.
func FirmwareFileOf(n *Node) (FirmwareFile, bool) {
	var file FirmwareFile
	ok := n.DriverInternalInfo.Get(FirmwareFileKey, &file) && len(file.Secret) == hex.EncodedLen(secretBytes)
	return file, ok
}

// StoreIn stores f in n as the firmware that the engine serves to the node's BMC.
func (f FirmwareFile) StoreIn(n *Node) {
	n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{FirmwareFileKey: f})
}

// WithdrawFirmwareFile ends the serving of firmware to the node's BMC.
func WithdrawFirmwareFile(n *Node) {
	n.DriverInternalInfo = n.DriverInternalInfo.Without(FirmwareFileKey)
}

// Opens reports whether secret is the secret of the file. The comparison takes the same time for
// all wrong secrets of the same length.
func (f FirmwareFile) Opens(secret string) bool {
	return subtle.ConstantTimeCompare([]byte(f.Secret), []byte(secret)) == 1
}

// Path is the path of the URL at which the boot service serves the file to the BMC of the
// node with the UUID.
func (f FirmwareFile) Path(uuid string) string {
	return bootPath + uuid + "/" + f.Secret + "/firmware/" + f.Name
}
