package controlplane

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// maxErrorText limits what is quoted of a program's output, in bytes.
const maxErrorText = 400

// klogHeader matches the start of an error or fatal line of Kubernetes' log:
// severity, date, time, thread and place.
var klogHeader = regexp.MustCompile(`^[EF]\d{4} [\d:.]+ +\d+ [^]]+\] `)

// lastError returns the line of a program's output that best tells why the program ended: the last
// fatal line of etcd's JSON log, the last error line of Kubernetes' log, or the last line that is
// not empty. It skips stack traces.
func lastError(output []byte) string {
	var fallback string
	lines := bytes.Split(output, []byte("\n"))
	for i := len(lines) - 1; i >= 0; i-- {
		line := bytes.TrimSpace(lines[i])
		if text := errorText(line); text != "" {
			return clip(text)
		}
		if fallback == "" {
			fallback = string(line)
		}
	}
	if fallback == "" {
		return "no output"
	}
	return clip(fallback)
}

// errorText returns the message of a line that reports an error, else "".
func errorText(line []byte) string {
	var entry struct {
		Level string `json:"level"`
		Msg   string `json:"msg"`
		Error string `json:"error"`
	}
	if json.Unmarshal(line, &entry) == nil {
		switch entry.Level {
		case "fatal", "panic", "error":
			return strings.TrimSuffix(entry.Msg+": "+entry.Error, ": ")
		}
		return ""
	}
	if header := klogHeader.Find(line); header != nil {
		return string(line[len(header):])
	}
	for _, prefix := range []string{"Error: ", "error: ", "panic: "} {
		if text, ok := bytes.CutPrefix(line, []byte(prefix)); ok {
			return string(text)
		}
	}
	return ""
}

func clip(text string) string {
	if len(text) <= maxErrorText {
		return text
	}
	return strings.ToValidUTF8(text[:maxErrorText], "") + "…"
}
