package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDiskSpacingIsANumberOrABoolean(t *testing.T) {
	for value, want := range map[string]GiB{"0": 0, "1": 1, "5": 5, "true": 1, "false": 0, "True": 1, "FALSE": 0} {
		path := filepath.Join(t.TempDir(), "ingot.yaml")
		if err := os.WriteFile(path, []byte("inspector:\n  disk_partitioning_spacing: "+value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for name, sources := range map[string]Sources{
			"file":        {File: path},
			"environment": {Environ: []string{"INGOT_INSPECTOR__DISK_PARTITIONING_SPACING=" + value}},
			"--set":       {Set: map[string]string{"inspector.disk_partitioning_spacing": value}},
		} {
			cfg, err := LoadConfig(sources)
			if err != nil || cfg.Inspector.DiskPartitioningSpacing != want || cfg.Inspector.hooks().DiskPartitioningSpacing != int(want) {
				t.Errorf("%s with %s: %d GiB, %v, want %d", name, value, cfg.Inspector.DiskPartitioningSpacing, err, want)
			}
		}
	}
	_, err := LoadConfig(Sources{Environ: []string{"INGOT_INSPECTOR__DISK_PARTITIONING_SPACING=some"}})
	if err == nil || !strings.Contains(err.Error(), "disk_partitioning_spacing") {
		t.Errorf("error %v, want one that names the key", err)
	}
}
