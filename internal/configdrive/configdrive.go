// Package configdrive makes and checks config drives: ISO images with the label config-2, in the
// layout of OpenStack. An instance reads its metadata, its network configuration and its user data
// from them.
//
// The API carries a config drive in one of three forms: the URL of an image, the base64 text of a
// compressed image, or its data as an object. Agents accept the first two.
package configdrive

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Label is the volume label of a config drive, which instances look for.
const Label = "config-2"

// DefaultMaxSize limits the image of a config drive, in bytes. Agents write it into a partition of
// 64 MiB.
const DefaultMaxSize = 64 << 20

// Instance has the defaults for the metadata of an instance. Values from the client win.
type Instance struct {
	UUID string // of the node
	Name string // of the node; may be empty
}

// ForAgent returns a config drive in a form that agents accept, a URL or base64 text, from any form
// of the API. It checks the client's data, and fetches nothing. Null, an empty text and an empty
// object mean that there is no config drive; then it returns an empty text. maxSize limits the
// image, in bytes.
func ForAgent(raw json.RawMessage, instance Instance, maxSize int64) (string, error) {
	var text string
	switch trimmed := strings.TrimSpace(string(raw)); {
	case trimmed == "", trimmed == "null", trimmed == `""`, trimmed == "{}":
		return "", nil
	case trimmed[0] == '{':
		image, err := Build(raw, instance)
		if err != nil {
			return "", err
		}
		if image.Size() > maxSize {
			return "", tooLarge(maxSize)
		}
		return Encode(image.Reader())
	default:
		if err := json.Unmarshal(raw, &text); err != nil {
			return "", errors.New("config drive is neither a text nor an object")
		}
	}
	if strings.Contains(text, "://") {
		return text, checkURL(text)
	}
	return text, Check(text, maxSize)
}

// checkURL refuses URLs that agents cannot download. Errors do not repeat the URL, because it may
// contain credentials.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("the config drive's URL is not valid")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("the config drive's URL has the scheme %.20q, want http or https", u.Scheme)
	case u.Host == "":
		return errors.New("the config drive's URL has no host")
	}
	return nil
}

func tooLarge(maxSize int64) error {
	return fmt.Errorf("the config drive's image has more than %d bytes", maxSize)
}
