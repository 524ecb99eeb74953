// Package cloudinit reads the user data of an instance as cloud-init does, as far as Cluster API's
// kubeadm bootstrap provider uses it. The user data is a cloud-config with files to write and
// commands to run. It may be a Jinja template over the metadata of the instance. The package writes
// no file and runs no command.
package cloudinit

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// ErrNoCloudConfig means that the user data is not a cloud-config but, for example, a script.
var ErrNoCloudConfig = errors.New("the user data is no cloud-config")

const (
	templateHeader = "## template: jinja"
	configHeader   = "#cloud-config"

	// maxFile is the largest size to which a file of a cloud-config unpacks, in bytes.
	maxFile = 16 << 20
)

// Config is what a cloud-config asks for.
type Config struct {
	// Files are the contents of the files to write, by their paths.
	Files map[string][]byte
	// Commands run at the first boot of the instance, in this order.
	Commands []string
}

// MetaData is the metadata of an instance, from openstack/latest/meta_data.json.
type MetaData map[string]any

// ParseMetaData reads the JSON text of metadata.
func ParseMetaData(text []byte) (MetaData, error) {
	m := MetaData{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&m); err != nil {
		return nil, fmt.Errorf("read the metadata: %w", err)
	}
	return m, nil
}

// Hostname returns the name that cloud-init gives the instance, or "" if the metadata has none.
func (m MetaData) Hostname() string {
	for _, key := range []string{"local-hostname", "local_hostname", "hostname", "name"} {
		if name, ok := m[key].(string); ok && name != "" {
			return name
		}
	}
	return ""
}

// Parse reads user data and fills in its template. The error wraps [ErrNoCloudConfig], or says what
// cloud-init or this package does not understand.
func Parse(userData []byte, metaData MetaData) (Config, error) {
	text := string(userData)
	if first, rest, _ := strings.Cut(text, "\n"); strings.TrimSpace(first) == templateHeader {
		var err error
		if text, err = render(rest, variables(metaData)); err != nil {
			return Config{}, fmt.Errorf("fill in the template of the user data: %w", err)
		}
	}
	if first, _, _ := strings.Cut(text, "\n"); strings.TrimSpace(first) != configHeader {
		return Config{}, ErrNoCloudConfig
	}
	var parsed cloudConfig
	if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
		return Config{}, fmt.Errorf("read the cloud-config: %w", err)
	}
	return parsed.config()
}

// cloudConfig is the part of a cloud-config that this package uses.
type cloudConfig struct {
	WriteFiles []file    `json:"write_files"`
	RunCmd     []command `json:"runcmd"`
}

type file struct {
	Path     string `json:"path"`
	Content  string `json:"content"`
	Encoding string `json:"encoding"`
	Append   bool   `json:"append"`
}

// command is a line for a shell, or a list of words.
type command string

func (c *command) UnmarshalJSON(text []byte) error {
	var line string
	if json.Unmarshal(text, &line) == nil {
		*c = command(line)
		return nil
	}
	var words []string
	if err := json.Unmarshal(text, &words); err != nil {
		return errors.New("a command is neither a text nor a list of texts")
	}
	*c = command(strings.Join(words, " "))
	return nil
}

func (c cloudConfig) config() (Config, error) {
	read := Config{Files: make(map[string][]byte, len(c.WriteFiles))}
	for _, f := range c.WriteFiles {
		content, err := decode(f.Content, f.Encoding)
		if err != nil {
			return Config{}, fmt.Errorf("decode the file %s of the cloud-config: %w", f.Path, err)
		}
		if f.Append {
			content = append(slices.Clone(read.Files[f.Path]), content...)
		}
		read.Files[f.Path] = content
	}
	for _, line := range c.RunCmd {
		read.Commands = append(read.Commands, string(line))
	}
	return read, nil
}

// encodings says how a file with an encoding is decoded: first base64, then gzip.
var encodings = map[string]struct{ base64, gzip bool }{
	"":            {},
	"text/plain":  {},
	"b64":         {base64: true},
	"base64":      {base64: true},
	"gz":          {gzip: true},
	"gzip":        {gzip: true},
	"gz+b64":      {base64: true, gzip: true},
	"gz+base64":   {base64: true, gzip: true},
	"gzip+b64":    {base64: true, gzip: true},
	"gzip+base64": {base64: true, gzip: true},
}

func decode(content, encoding string) ([]byte, error) {
	how, known := encodings[strings.ToLower(encoding)]
	if !known {
		return nil, fmt.Errorf("the encoding %q is none of %q", encoding, slices.Sorted(maps.Keys(encodings)))
	}
	data := []byte(content)
	if how.base64 {
		var err error
		if data, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(content), "")); err != nil {
			return nil, err
		}
	}
	if !how.gzip {
		return data, nil
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	data, err = io.ReadAll(io.LimitReader(reader, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return data, err
}
