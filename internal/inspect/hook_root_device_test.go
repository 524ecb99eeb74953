package inspect

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

// only returns a change of the configuration to one hook.
func only(hook string) func(*Config) { return func(c *Config) { c.Hooks = []string{hook} } }

// withDisks returns a document with disks, a JSON list, and more members of plugin
// data, each with a comma in front.
func withDisks(t testing.TB, disks, more string) *inventory.Document {
	t.Helper()
	return document(t, `{"inventory":{"interfaces":[`+nicWith("eth0", "01", `"ipv4_address":null`)+`],"disks":`+disks+`}`+more+`}`)
}

// threeDisks are of 10, 100 and 400 GiB; the last one has unknown keys.
const threeDisks = `[{"name":"/dev/sda","size":10737418240,"serial":"S10","rotational":true},` +
	`{"name":"/dev/sdb","size":107374182400,"serial":"S100","rotational":true},` +
	`{"x":[1, 2],"name":"/dev/sdc","size":429496729600,"serial":"S400","rotational":false,"model":"QEMU HARDDISK"}]`

func TestHintsOverrideTheRootDiskOfTheAgent(t *testing.T) {
	const agent10 = `,"root_disk":{"name":"/dev/sda","size":10737418240}`
	for name, tc := range map[string]struct {
		properties, root string
		spacing          int
		name             string // of root_disk afterwards
		localGB          int64
	}{
		"agent's choice":          {root: agent10, spacing: 1, name: "/dev/sda", localGB: 9},
		"no spacing":              {root: agent10, spacing: 0, name: "/dev/sda", localGB: 10},
		"more spacing":            {root: agent10, spacing: 4, name: "/dev/sda", localGB: 6},
		"empty hints":             {properties: `{"root_device":{}}`, root: agent10, spacing: 1, name: "/dev/sda", localGB: 9},
		"null hints":              {properties: `{"root_device":null}`, root: agent10, spacing: 1, name: "/dev/sda", localGB: 9},
		"hints":                   {properties: `{"root_device":{"size":">= 50"}}`, root: agent10, spacing: 1, name: "/dev/sdb", localGB: 99},
		"hints, no choice":        {properties: `{"root_device":{"model":"<in> qemu"}}`, spacing: 1, name: "/dev/sdc", localGB: 399},
		"all hints":               {properties: `{"root_device":{"size":">= 50","rotational":false}}`, root: agent10, spacing: 1, name: "/dev/sdc", localGB: 399},
		"excluded":                {properties: `{"root_device":{"size":">= 50"},"skip_block_devices":[{"name":"/dev/sdb"}]}`, root: agent10, spacing: 1, name: "/dev/sdc", localGB: 399},
		"exclusions that fit all": {properties: `{"root_device":{"size":">= 50"},"skip_block_devices":[{}]}`, root: agent10, spacing: 1, name: "/dev/sdb", localGB: 99},
		"no exclusions":           {properties: `{"root_device":{"size":">= 50"},"skip_block_devices":null}`, root: agent10, spacing: 1, name: "/dev/sdb", localGB: 99},
		"exclusions alone":        {properties: `{"skip_block_devices":[{"name":"/dev/sda"}]}`, root: agent10, spacing: 1, name: "/dev/sda", localGB: 9},
		"RAID volume excluded":    {properties: `{"root_device":{"size":">= 50"},"skip_block_devices":[{"volume_name":"large"}]}`, root: agent10, spacing: 1, name: "/dev/sdb", localGB: 99},
	} {
		t.Run(name, func(t *testing.T) {
			p := pipeline(t, func(c *Config) { c.Hooks, c.DiskPartitioningSpacing = []string{"root-device"}, tc.spacing })
			doc := withDisks(t, threeDisks, tc.root)
			result := run(t, p, Input{Document: doc, Properties: node.Object(tc.properties)})
			disk, _ := pluginValue(t, result, "root_disk").(map[string]any)
			if disk["name"] != tc.name {
				t.Errorf("root_disk = %v, want %s", disk, tc.name)
			}
			if got := pluginValue(t, result, "local_gb"); got != float64(tc.localGB) {
				t.Errorf("plugin data local_gb = %v, want %d", got, tc.localGB)
			}
			if diff := cmp.Diff(map[string]any{"local_gb": fmt.Sprint(tc.localGB)}, result.Properties); diff != "" {
				t.Errorf("properties (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDocumentedRootDiskIsFound(t *testing.T) {
	sections := page(t, "inspection-hooks.md")
	blocks := codeSpans.FindAllStringSubmatch(sections["root-device"], -1)
	var sent map[string]any
	if len(blocks) < 2 || json.Unmarshal([]byte(blocks[1][1]), &sent) != nil {
		t.Fatalf("the section has the blocks %q, want properties and an inventory", blocks)
	}
	in := Input{Document: exampleDocument(t, sent), Properties: node.Object(blocks[0][1])}
	result := run(t, pipeline(t, only("root-device")), in)
	disk, _ := pluginValue(t, result, "root_disk").(map[string]any)
	if disk["name"] != "/dev/sdc" || result.Properties["local_gb"] != "446" {
		t.Errorf("root disk %v and properties %v, want /dev/sdc with 446 GiB", disk, result.Properties)
	}
}

func TestRootDiskFoundByHintsIsStoredAsSent(t *testing.T) {
	doc := withDisks(t, threeDisks, "")
	result := run(t, pipeline(t, only("root-device")), Input{Document: doc, Properties: node.Object(`{"root_device":{"serial":"s400"}}`)})
	want := `"root_disk":{"x":[1, 2],"name":"/dev/sdc","size":429496729600,"serial":"S400","rotational":false,"model":"QEMU HARDDISK"}`
	if !strings.Contains(string(result.PluginData), want) {
		t.Errorf("plugin data %s, want it to hold %s", result.PluginData, want)
	}
	if len(doc.PluginData) != 0 {
		t.Errorf("the document's plugin data changed to %v", doc.PluginData)
	}
}

func TestHintsThatFindNoDiskFailTheInspection(t *testing.T) {
	for name, tc := range map[string]struct{ properties, disks, want string }{
		"too large": {
			`{"root_device":{"size":">= 500","rotational":false}}`, threeDisks,
			`no disk matches the hints in the property root_device: size ">= 500", rotational false. ` +
				`The inventory has "/dev/sda" of 10.0 GiB, "/dev/sdb" of 100.0 GiB, "/dev/sdc" of 400.0 GiB`,
		},
		"excluded": {
			`{"root_device":{"serial":"S100"},"skip_block_devices":[{"size":"< 50"},{"serial":"S100"}]}`, threeDisks,
			`no disk matches the hints in the property root_device: serial "S100". ` +
				`The inventory has "/dev/sda" of 10.0 GiB (excluded by skip_block_devices), ` +
				`"/dev/sdb" of 100.0 GiB (excluded by skip_block_devices), "/dev/sdc" of 400.0 GiB`,
		},
		"no disks": {
			`{"root_device":{"name":"/dev/sda"}}`, `null`,
			`no disk matches the hints in the property root_device: name "/dev/sda". The inventory has no disks`,
		},
		"unknown hint": {`{"root_device":{"colour":"red"}}`, `[]`, `the property root_device holds no valid hints: unknown hint "colour", want one of`},
		"bad size":     {`{"root_device":{"size":"big"}}`, `[]`, `the property root_device holds no valid hints: size: want a whole number of GiB above 0, got "big"`},
		"text":         {`{"root_device":"/dev/sda"}`, threeDisks, `the property root_device holds no valid hints: want an object of hints such as`},
		"number of text": {
			`{"root_device":{"serial":">= 100"}}`, threeDisks,
			`the hints in the property root_device cannot be compared with the disks; the agent would fail as well: ` +
				`serial: the operator >= cannot compare what disk "/dev/sda" has: "S10" is no number`,
		},
		"list of text": {
			`{"root_device":{"serial":"<all-in> S 10"}}`, threeDisks,
			`the hints in the property root_device cannot be compared with the disks; the agent would fail as well: ` +
				`serial: the operator <all-in> cannot compare what disk "/dev/sda" has: "S10" is no list`,
		},
		"number of text in exclusion": {
			`{"root_device":{"serial":"S10"},"skip_block_devices":[{"size":"> 200","serial":"> 1"}]}`, threeDisks,
			`entry 0 of the property skip_block_devices cannot be compared with the disks; the agent would fail as well: ` +
				`serial: the operator > cannot compare what disk "/dev/sdc" has: "S400" is no number`,
		},
		"exclusions no list": {`{"root_device":{"size":1},"skip_block_devices":"/dev/sda"}`, `[]`, `the property skip_block_devices is no list of hints such as [{"name": "/dev/sda"}]`},
		"bad exclusion":      {`{"root_device":{"size":1},"skip_block_devices":[{"size":1},{"size":"x"}]}`, `[]`, `entry 1 of the property skip_block_devices holds no valid hints: size: want`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pipeline(t, only("root-device")).Run(Input{Document: withDisks(t, tc.disks, ""), Properties: node.Object(tc.properties)})
			if !strings.HasPrefix(errorText(err), "root-device: "+tc.want) {
				t.Errorf("error\n got: %v\nwant: root-device: %s", err, tc.want)
			}
		})
	}
}

func TestUnusableRootDiskSetsLocalGBToZero(t *testing.T) {
	for name, tc := range map[string]struct{ root, reason string }{
		"none":          {``, `The machine has no root disk, so local_gb is 0`},
		"null":          {`,"root_disk":null`, `The machine has no root disk, so local_gb is 0`},
		"empty":         {`,"root_disk":{}`, `The machine has no root disk, so local_gb is 0`},
		"text":          {`,"root_disk":"/dev/sda"`, `The plugin data root_disk is no disk, so local_gb is 0: want an object, got the text "/dev/sda"`},
		"list":          {`,"root_disk":[{"size":10737418240}]`, `The plugin data root_disk is no disk, so local_gb is 0: want an object, got a list`},
		"size unknown":  {`,"root_disk":{"size":null,"name":"/dev/sda"}`, `The root disk has 0 bytes, less than 1 GiB, so local_gb is 0`},
		"size negative": {`,"root_disk":{"size":-107374182400}`, `The root disk has -107374182400 bytes, less than 1 GiB, so local_gb is 0`},
		"size no number": {
			`,"root_disk":{"size":"large"}`,
			`The plugin data root_disk is no disk, so local_gb is 0: size: want a whole number, got the text "large"`,
		},
		"under 1 GiB":  {`,"root_disk":{"size":"1073741823"}`, `The root disk has 1073741823 bytes, less than 1 GiB, so local_gb is 0`},
		"all spacing":  {`,"root_disk":{"size":1073741824}`, ``},
		"less than it": {`,"root_disk":{"size":1073741824}`, `The root disk of 1073741824 bytes is smaller than inspector.disk_partitioning_spacing, so local_gb is 0`},
	} {
		t.Run(name, func(t *testing.T) {
			p := pipeline(t, func(c *Config) {
				c.Hooks = []string{"root-device"}
				if name == "less than it" {
					c.DiskPartitioningSpacing = 2
				}
			})
			result := run(t, p, Input{Document: withDisks(t, threeDisks, tc.root), Properties: node.Object(`{"local_gb":"7"}`)})
			if diff := cmp.Diff(map[string]any{"local_gb": "0"}, result.Properties); diff != "" {
				t.Errorf("properties (-want +got):\n%s", diff)
			}
			if got := strings.Join(result.Skipped, "; "); got != tc.reason {
				t.Errorf("skipped\n got: %s\nwant: %s", got, tc.reason)
			}
		})
	}
}

func TestRootDiskIsFoundAmongThousands(t *testing.T) {
	var disks []string
	for i := range 5000 {
		disks = append(disks, fmt.Sprintf(`{"name":"/dev/disk%d","size":%d,"serial":null}`, i, int64(i)<<30))
	}
	doc := withDisks(t, "["+strings.Join(disks, ",")+"]", "")
	skip := `[` + strings.Repeat(`{"size":"> 4500"},`, 50) + `{"size":"< 4000"}]`
	p := pipeline(t, only("root-device"))
	result := run(t, p, Input{Document: doc, Properties: node.Object(`{"root_device":{"size":">= 3000"},"skip_block_devices":` + skip + `}`)})
	if got := result.Properties["local_gb"]; got != "3999" {
		t.Errorf("local_gb = %v, want 3999", got)
	}
	_, err := p.Run(Input{Document: doc, Properties: node.Object(`{"root_device":{"size":"> 9000"}}`)})
	if text := errorText(err); len(text) > 500 || !strings.HasSuffix(text, "4996 more") {
		t.Errorf("error %s, want the first disks and the number of others", text)
	}
}

func TestSpacingCannotBeNegative(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Hooks, cfg.DiskPartitioningSpacing = []string{"root-device"}, -1
	_, err := NewPipeline(cfg)
	if want := "inspector.disk_partitioning_spacing: want 0 or more GiB, got -1"; errorText(err) != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// FuzzRootDevice feeds hints, exclusions, disks and the agent's choice.
func FuzzRootDevice(f *testing.F) {
	f.Add([]byte(`{"root_device":{"size":">= 50"},"skip_block_devices":[{"name":"/dev/sdb"}]}`), []byte(threeDisks), []byte(`{"size":1}`))
	f.Add([]byte(`{"root_device":{"serial":"<or> s10 <or> s400","rotational":"no"}}`), []byte(threeDisks), []byte(`null`))
	f.Add([]byte(`{"root_device":[],"skip_block_devices":[{"volume_name":1},7]}`), []byte(`[{"size":-1}]`), []byte(`"x"`))
	p := pipeline(f, func(c *Config) { c.Hooks = []string{"raid-device,root-device"} })
	f.Fuzz(func(t *testing.T, properties, disks, root []byte) {
		doc, err := inventory.Parse([]byte(`{"inventory":{"interfaces":[` + nic("eth0", "01") + `],"disks":` + string(disks) + `},"root_disk":` + string(root) + `}`))
		if err != nil {
			return
		}
		before, err := node.ParseObject(properties)
		if err != nil {
			return
		}
		result, err := p.Run(Input{Document: doc, Properties: before, Previous: &inventory.Inventory{}})
		if err != nil {
			if len(err.Error()) > 4096 {
				t.Fatalf("error %q is not fit to show", err)
			}
			return
		}
		var data struct {
			LocalGB *int64 `json:"local_gb"`
		}
		if err := json.Unmarshal(result.PluginData, &data); err != nil || data.LocalGB == nil || *data.LocalGB < 0 {
			t.Fatalf("plugin data %s: %v", result.PluginData, err)
		}
	})
}
