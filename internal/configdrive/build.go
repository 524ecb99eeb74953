package configdrive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ingot-metal/ingot/internal/iso9660"
)

// data is a config drive in object form. Keys that are missing or null are not set.
type data struct {
	MetaData    json.RawMessage `json:"meta_data"`
	UserData    json.RawMessage `json:"user_data"`
	NetworkData json.RawMessage `json:"network_data"`
	VendorData  json.RawMessage `json:"vendor_data"`
}

// Build makes the image of a config drive from the API's object:
//
//	meta_data     object; uuid and name are those of the instance unless it has them
//	user_data     a text, taken as it is, or an object or array, taken as its JSON text
//	network_data  object
//	vendor_data   object
//
// Only meta_data.json is in every image. Other keys are refused. The same object makes the
// same bytes.
func Build(object json.RawMessage, instance Instance) (*iso9660.Image, error) {
	var d data
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return nil, fmt.Errorf("read the config drive: %w", err)
	}
	metaData, err := d.metaData(instance)
	if err != nil {
		return nil, err
	}
	userData, err := d.userData()
	if err != nil {
		return nil, err
	}
	networkData, err := objectText("network_data", d.NetworkData)
	if err != nil {
		return nil, err
	}
	vendorData, err := objectText("vendor_data", d.VendorData)
	if err != nil {
		return nil, err
	}
	var files []iso9660.File
	for _, f := range []struct {
		name    string
		content []byte
	}{
		{"meta_data.json", metaData},
		{"user_data", userData},
		{"network_data.json", networkData},
		{"vendor_data2.json", vendorData},
	} {
		if len(f.content) > 0 {
			files = append(files, iso9660.File{Path: "openstack/latest/" + f.name, Size: int64(len(f.content)), Content: bytes.NewReader(f.content)})
		}
	}
	image, err := iso9660.New(iso9660.Spec{Label: Label, Files: files})
	if err != nil {
		return nil, fmt.Errorf("make a config drive: %w", err)
	}
	return image, nil
}

// metaData returns the text of the metadata, with defaults for uuid and name.
func (d data) metaData(instance Instance) ([]byte, error) {
	values := map[string]json.RawMessage{}
	if isSet(d.MetaData) {
		if err := json.Unmarshal(d.MetaData, &values); err != nil {
			return nil, errors.New("meta_data of the config drive is not an object")
		}
	}
	for key, value := range map[string]string{"uuid": instance.UUID, "name": instance.Name} {
		if _, given := values[key]; !given && value != "" {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, fmt.Errorf("write %s into the metadata: %w", key, err)
			}
			values[key] = text
		}
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("write the metadata: %w", err)
	}
	return text, nil
}

// userData returns the user data in the form that an instance reads.
func (d data) userData() ([]byte, error) {
	if !isSet(d.UserData) {
		return nil, nil
	}
	switch d.UserData[0] {
	case '"':
		var text string
		if err := json.Unmarshal(d.UserData, &text); err != nil {
			return nil, fmt.Errorf("read the user data: %w", err)
		}
		return []byte(text), nil
	case '{', '[':
		return compact(d.UserData)
	default:
		return nil, errors.New("user_data of the config drive is neither a text nor an object nor an array")
	}
}

// objectText returns the text of an object, or nothing if it is not set.
func objectText(key string, value json.RawMessage) ([]byte, error) {
	switch {
	case !isSet(value):
		return nil, nil
	case value[0] != '{':
		return nil, fmt.Errorf("%s of the config drive is not an object", key)
	default:
		return compact(value)
	}
}

func compact(value json.RawMessage) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, value); err != nil {
		return nil, fmt.Errorf("write JSON of the config drive: %w", err)
	}
	return b.Bytes(), nil
}

func isSet(value json.RawMessage) bool {
	return len(value) > 0 && string(value) != "null"
}
