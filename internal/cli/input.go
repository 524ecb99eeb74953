package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

// maxInput is the most that a flag reads from a file or standard input, in bytes. The largest valid
// input is a config drive, which engines limit to 64 MiB.
const maxInput = 64 << 20

// readJSON returns the value that text stands for: text is JSON itself, the name of a file with
// JSON or YAML, or - for standard input. Numbers stay exact.
func readJSON(text string, stdin io.Reader) (any, error) {
	content := []byte(text)
	if !looksLikeJSON(text) {
		var err error
		if content, err = readInput(text, stdin); err != nil {
			return nil, err
		}
	}
	return decodeInput(content)
}

// decodeInput decodes a JSON or YAML text, which must be an object or a list.
func decodeInput(content []byte) (any, error) {
	converted, err := yaml.YAMLToJSONStrict(content)
	// JSON is not converted, because YAML has other escapes and other numbers. The conversion still
	// finds a duplicate key, which is an error: decoding JSON would keep only one of the values.
	if json.Valid(content) && (err == nil || !strings.Contains(err.Error(), "already set in map")) {
		converted, err = content, nil
	}
	if err != nil {
		return nil, fmt.Errorf("it is neither JSON nor YAML: %s", oneLine(err.Error()))
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(converted))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("it is neither JSON nor YAML: %w", err)
	}
	switch value.(type) {
	case map[string]any, []any:
		return value, nil
	}
	return nil, errors.New("it must be a JSON object or list")
}

func looksLikeJSON(text string) bool {
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")
}

// readConfigDrive returns a config drive as the API takes it: an object, the URL of a config drive,
// or base64 of a gzipped ISO image. The text is an object or a URL itself, or names a file (- for
// standard input). The file contains an object, base64 text, or an image, gzipped or not.
func readConfigDrive(text string, stdin io.Reader) (any, error) {
	if strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://") {
		return text, nil
	}
	if looksLikeJSON(text) {
		return readJSON(text, stdin)
	}
	content, err := readInput(text, stdin)
	if err != nil {
		return nil, err
	}
	if looksLikeJSON(string(bytes.TrimSpace(content))) {
		return readJSON(string(bytes.TrimSpace(content)), stdin)
	}
	if bytes.HasPrefix(content, gzipMagic) {
		return base64.StdEncoding.EncodeToString(content), nil
	}
	if encoded := string(bytes.TrimSpace(content)); isBase64(encoded) {
		return encoded, nil
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(content); err != nil {
		return nil, fmt.Errorf("compress config drive: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress config drive: %w", err)
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

// gzipMagic is how a gzip file begins (RFC 1952, section 2.3.1).
var gzipMagic = []byte{0x1f, 0x8b}

func isBase64(text string) bool {
	decoded, err := base64.StdEncoding.DecodeString(text)
	return err == nil && bytes.HasPrefix(decoded, gzipMagic)
}

// readInput reads a file, or standard input for "-".
func readInput(name string, stdin io.Reader) ([]byte, error) {
	source := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, withoutPath(err) // without the path: the caller's error names the value of the flag
		}
		defer file.Close()
		source = file
	}
	if source == nil {
		return nil, errors.New("there is no standard input to read")
	}
	content, err := io.ReadAll(io.LimitReader(source, maxInput+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxInput {
		return nil, fmt.Errorf("%s is larger than %d MiB", name, maxInput>>20)
	}
	return content, nil
}

// readPassword returns the password that text is, or the first line of standard input for "-":
// other users can see the arguments of a process.
func readPassword(text string, stdin io.Reader) (string, error) {
	if text != "-" {
		return text, nil
	}
	content, err := readInput(text, stdin)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(content), "\n")
	line = strings.TrimSuffix(line, "\r")
	if line == "" {
		return "", errors.New("the first line of standard input is empty")
	}
	return line, nil
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
