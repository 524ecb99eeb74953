package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const inventoryBody = `{"inventory": {"hostname": "h<1>", "big": 9007199254740993}, "plugin_data": {"x": null}}`

const inventorySaved = `{
  "inventory": {
    "hostname": "h<1>",
    "big": 9007199254740993
  },
  "plugin_data": {
    "x": null
  }
}
`

func TestInventoryIsSavedCompleteAndReadable(t *testing.T) {
	_, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes/n1/inventory": {{200, inventoryBody}}})
	directory := t.TempDir()
	file := filepath.Join(directory, "n1.json")
	var r run
	if err := (InventorySave{File: file}).Run(t.Context(), engine, "n1", &r.out); err != nil {
		t.Fatal(err)
	}
	saved, err := os.ReadFile(file)
	if err != nil || string(saved) != inventorySaved {
		t.Errorf("saved %q, %v", saved, err)
	}
	if info, _ := os.Stat(file); info.Mode().Perm()&0o700 != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if entries, _ := os.ReadDir(directory); len(entries) != 1 || r.out.Len() > 0 {
		t.Errorf("left %v, printed %q", entries, r.out.String())
	}
}

func TestInventoryGoesToStandardOutputWithoutAFile(t *testing.T) {
	for _, file := range []string{"", "-"} {
		_, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes/n1/inventory": {{200, inventoryBody}}})
		var r run
		if err := (InventorySave{File: file}).Run(t.Context(), engine, "n1", &r.out); err != nil || r.out.String() != inventorySaved {
			t.Errorf("%q: printed %q, %v", file, r.out.String(), err)
		}
	}
}

func TestExistingFileIsReplacedWhereItIs(t *testing.T) {
	directory := t.TempDir()
	file, link := filepath.Join(directory, "n1.json"), filepath.Join(directory, "latest.json")
	if err := errors.Join(os.WriteFile(file, []byte("old"), 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	_, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes/n1/inventory": {{200, inventoryBody}}})
	if err := (InventorySave{File: link}).Run(t.Context(), engine, "n1", nil); err != nil {
		t.Fatal(err)
	}
	if replaced, _ := os.ReadFile(file); string(replaced) != inventorySaved {
		t.Errorf("file holds %q", replaced)
	}
	info, err := os.Lstat(file)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the file became %v, %v", info, err)
	}
	if entries, _ := os.ReadDir(directory); len(entries) != 2 {
		t.Errorf("left %v", entries)
	}
}

func TestInventoryIsWrittenToADeviceItself(t *testing.T) {
	_, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes/n1/inventory": {{200, inventoryBody}}})
	if err := (InventorySave{File: os.DevNull}).Run(t.Context(), engine, "n1", nil); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("the device became %v, %v", info, err)
	}
}

func TestInventoryIsNotWrittenOverAFolder(t *testing.T) {
	_, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes/n1/inventory": {{200, inventoryBody}}})
	err := InventorySave{File: t.TempDir()}.Run(t.Context(), engine, "n1", nil)
	if err == nil || !strings.Contains(err.Error(), "it is a folder") {
		t.Errorf("got %v", err)
	}
}

func TestFailureToWriteNamesTheFileThatWasAskedFor(t *testing.T) {
	_, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes/n1/inventory": {{200, inventoryBody}}})
	err := InventorySave{File: "missing/n1.json"}.Run(t.Context(), engine, "n1", nil)
	if err == nil || err.Error() != "write missing/n1.json: no such file or directory" {
		t.Errorf("got %v", err)
	}
}

func TestNothingIsWrittenWhenThereIsNoInventory(t *testing.T) {
	_, engine := newFakeEngine(t, nil)
	directory := t.TempDir()
	err := InventorySave{File: filepath.Join(directory, "x")}.Run(t.Context(), engine, "n1", nil)
	if entries, _ := os.ReadDir(directory); ExitCode(err) != ExitNotFound || len(entries) > 0 {
		t.Errorf("got %v, left %v", err, entries)
	}
}
