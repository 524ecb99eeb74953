package story

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
)

// TestLogsOfTheRamdiskOutliveAFailedDeployment lets the writing of an image fail. The logs of the
// ramdisk must be in the file that the history names.
func TestLogsOfTheRamdiskOutliveAFailedDeployment(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "logs")
	r, authority := startBootService(t, redfish.Vendors[0], func(r *rack, o *sim.Options) {
		o.AgentFaults = effect.AgentFaults{Fail: 1, Commands: []string{"write_image"}}
		r.settings = append(r.settings, "agent.deploy_logs_local_path="+folder)
	})
	uuid := r.registerBMC(t, authority, map[string]any{"boot_interface": "ipxe"})
	r.provision(t, uuid, "manage", "manageable")
	r.provision(t, uuid, "provide", "available")
	if files, err := os.ReadDir(folder); err != nil || len(files) != 0 {
		t.Errorf("before any failure: %v, %v, want an empty folder", files, err)
	}
	r.request(t, http.MethodPatch, "/v1/nodes/"+uuid, serveImage(t).instance, http.StatusOK)
	r.provision(t, uuid, "active", "deploy failed")
	files, err := filepath.Glob(filepath.Join(folder, uuid+"_*.tar.gz"))
	if err != nil || len(files) != 1 {
		t.Fatalf("logs are in %q, %v, want one file", files, err)
	}
	if _, history := r.get(t, "/v1/nodes/"+uuid+"/history"); !strings.Contains(string(history), filepath.Base(files[0])) {
		t.Errorf("the history does not name %s", files[0])
	}
	if journal := journalIn(t, files[0]); !strings.Contains(journal, "execute_deploy_step") || !strings.Contains(journal, "FAILED") {
		t.Errorf("the journal of the ramdisk is %q, want the step that has failed", journal)
	}
	if n := r.show(t, uuid); n.Power != "power off" {
		t.Errorf("the power is %q, want it off", n.Power)
	}
}

// journalIn returns the journal in an archive of logs.
func journalIn(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(unpacked); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			t.Fatal("there is no journal")
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Name == "journal" {
			text, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
}
