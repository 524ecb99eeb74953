package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// containers returns the containers of workloads in a manifest.
func containers(t *testing.T, file string) []any {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []any
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
		obj := map[string]any{}
		err := decoder.Decode(&obj)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		found, _, err := unstructured.NestedSlice(obj, "spec", "template", "spec", "containers")
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, found...)
	}
}

func TestArgumentsInManifestsAreThoseOfCommands(t *testing.T) {
	files, err := filepath.Glob("../../config/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := filepath.Glob("../../config/*/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, deeper...)
	checked := 0
	for _, file := range files {
		for _, container := range containers(t, file) {
			fields, _ := container.(map[string]any)
			args, _, err := unstructured.NestedStringSlice(fields, "args")
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			cmd, rest, err := newRootCommand().Find(args)
			if err == nil {
				err = errors.Join(cmd.ParseFlags(rest), cmd.ValidateArgs(cmd.Flags().Args()))
			}
			if err != nil {
				t.Errorf("%s: ingot %s: %v", file, strings.Join(args, " "), err)
			}
			checked++
		}
	}
	if checked < 8 { // six groups of controllers, the engine and the webhooks
		t.Errorf("only %d containers were found", checked)
	}
}

// TestFlagsInTheChartAreThoseOfTheOperator looks for flags in the templates. Another test compares
// the rendered templates with the manifests, but some flags have no place there.
func TestFlagsInTheChartAreThoseOfTheOperator(t *testing.T) {
	cmd, _, err := newRootCommand().Find([]string{"operator"})
	if err != nil {
		t.Fatal(err)
	}
	flag := regexp.MustCompile(`(?m)^ *- --([a-z-]+)`)
	checked := 0
	for _, name := range []string{"operator.yaml", "_operator.tpl"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "charts", "ingot", "templates", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range flag.FindAllStringSubmatch(string(text), -1) {
			if cmd.Flags().Lookup(match[1]) == nil {
				t.Errorf("%s: ingot operator has no flag --%s", name, match[1])
			}
			checked++
		}
	}
	if checked < 12 {
		t.Errorf("only %d flags were found", checked)
	}
}
