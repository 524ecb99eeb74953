package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// diskKey checks the value of one key of a logical disk.
type diskKey func(raw json.RawMessage) error

// logicalDiskKeys has every key of a logical disk.
var logicalDiskKeys = map[string]diskKey{
	"size_gb":                  diskSize,
	"raid_level":               oneOf("0", "1", "2", "5", "6", "1+0", "5+0", "6+0", "JBOD"),
	"is_root_volume":           diskFlag,
	"volume_name":              diskText,
	"disk_type":                oneOf("hdd", "ssd"),
	"interface_type":           oneOf("sata", "scsi", "sas"),
	"controller":               diskText,
	"number_of_physical_disks": diskCount,
	"physical_disks":           diskList,
	"share_physical_disks":     diskFlag,
}

// setRAID stores the wanted RAID configuration.
func (a *api) setRAID(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil {
		return err
	}
	if err := checkNumbers(body); err != nil {
		return err
	}
	config, err := readRAID(body)
	if err != nil {
		return err
	}
	if err := a.engine.SetRAIDConfig(r.Context(), ident, config); err != nil {
		return fmt.Errorf("set RAID configuration of node %s: %w", ident, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// readRAID parses and checks a RAID configuration, which may be empty.
func readRAID(body []byte) (node.Object, error) {
	config, err := node.ParseObject(body)
	if err != nil {
		return nil, badRequest("The RAID configuration cannot be read: %v", err)
	}
	for key := range config.Fields() {
		if key != "logical_disks" {
			return nil, badRequest("Unknown key %q of a RAID configuration; the only key is logical_disks.", key)
		}
	}
	var disks []map[string]json.RawMessage
	if raw, ok := config.Fields()["logical_disks"]; ok {
		if err := json.Unmarshal(raw, &disks); err != nil {
			return nil, badRequest("logical_disks must be a list of objects.")
		}
	}
	roots := 0
	for i, disk := range disks {
		if err := checkDisk(disk); err != nil {
			return nil, badRequest("Logical disk %d: %v.", i, err)
		}
		if string(disk["is_root_volume"]) == "true" {
			roots++
		}
	}
	if roots > 1 {
		return nil, badRequest("%d logical disks are root volumes; at most one can be.", roots)
	}
	return config, nil
}

func checkDisk(disk map[string]json.RawMessage) error {
	for _, required := range []string{"raid_level", "size_gb"} {
		if _, ok := disk[required]; !ok {
			return fmt.Errorf("it lacks %s", required)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(disk)) {
		check, ok := logicalDiskKeys[name]
		if !ok {
			return fmt.Errorf("unknown key %q", name)
		}
		if err := check(disk[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func diskSize(raw json.RawMessage) error {
	var size int64
	if string(raw) == `"MAX"` || json.Unmarshal(raw, &size) == nil && size > 0 {
		return nil
	}
	return errors.New(`want a whole number of at least 1, or "MAX"`)
}

func diskCount(raw json.RawMessage) error {
	var count int64
	if json.Unmarshal(raw, &count) != nil || count < 1 {
		return errors.New("want a whole number of at least 1")
	}
	return nil
}

func diskFlag(raw json.RawMessage) error {
	var flag bool
	if json.Unmarshal(raw, &flag) != nil {
		return errors.New("want true or false")
	}
	return nil
}

func diskText(raw json.RawMessage) error {
	_, err := readText(raw, maxText)
	return err
}

func diskList(raw json.RawMessage) error {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return errors.New("want a list")
	}
	for _, item := range items {
		if len(item) == 0 || item[0] != '"' && item[0] != '{' {
			return errors.New("want a list of names or of hints")
		}
	}
	return nil
}

func oneOf(words ...string) diskKey {
	return func(raw json.RawMessage) error {
		var text string
		if json.Unmarshal(raw, &text) != nil || !slices.Contains(words, text) {
			return fmt.Errorf("want one of %s", strings.Join(words, ", "))
		}
		return nil
	}
}
