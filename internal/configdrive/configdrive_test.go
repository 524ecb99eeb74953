package configdrive

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/iso9660"
	"github.com/ingot-metal/ingot/internal/iso9660/iso9660test"
)

var worker = Instance{UUID: "1be26c0b-03f2-4d2e-ae87-c02d7f33c123", Name: "worker-7"}

// filesOf returns the files that an instance reads, from the text that an agent gets.
func filesOf(t *testing.T, text string) map[string]string {
	t.Helper()
	image, err := Decode(text, DefaultMaxSize)
	if err != nil {
		t.Fatal(err)
	}
	label, files := iso9660test.Read(t, bytes.NewReader(image))
	if label != "config-2" {
		t.Errorf("label %q", label)
	}
	return files
}

func TestObjectsBecomeFiles(t *testing.T) {
	t.Parallel()
	const folder = "openstack/latest/"
	for object, want := range map[string]map[string]string{
		`{"user_data":"#cloud-config\nhostname: <worker>\n","network_data":{"links": [ ]},"vendor_data":{"a": 1}}`: {
			folder + "meta_data.json":    `{"name":"worker-7","uuid":"1be26c0b-03f2-4d2e-ae87-c02d7f33c123"}`,
			folder + "user_data":         "#cloud-config\nhostname: <worker>\n",
			folder + "network_data.json": `{"links":[]}`,
			folder + "vendor_data2.json": `{"a":1}`,
		},
		`{"meta_data":{"uuid":"theirs","name":null,"number":12345678901234567890},"user_data":{"z": "<&>", "a": 1.50}}`: {
			folder + "meta_data.json": `{"name":null,"number":12345678901234567890,"uuid":"theirs"}`,
			folder + "user_data":      `{"z":"<&>","a":1.50}`,
		},
		`{"meta_data":null,"user_data":[1, 2],"network_data":null}`: {
			folder + "meta_data.json": `{"name":"worker-7","uuid":"1be26c0b-03f2-4d2e-ae87-c02d7f33c123"}`,
			folder + "user_data":      `[1,2]`,
		},
		`{"meta_data":{},"user_data":""}`: {
			folder + "meta_data.json": `{"name":"worker-7","uuid":"1be26c0b-03f2-4d2e-ae87-c02d7f33c123"}`,
		},
	} {
		text, err := ForAgent(json.RawMessage(object), worker, DefaultMaxSize)
		if err != nil {
			t.Errorf("%s: %v", object, err)
			continue
		}
		if diff := cmp.Diff(want, filesOf(t, text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", object, diff)
		}
		if again, _ := ForAgent(json.RawMessage(object), worker, DefaultMaxSize); again != text {
			t.Errorf("%s: not the same text again", object)
		}
	}
}

func TestNodesWithoutNameGiveNone(t *testing.T) {
	t.Parallel()
	text, err := ForAgent(json.RawMessage(`{"meta_data":{"a":1}}`), Instance{UUID: "u"}, DefaultMaxSize)
	if err != nil {
		t.Fatal(err)
	}
	if got := filesOf(t, text)["openstack/latest/meta_data.json"]; got != `{"a":1,"uuid":"u"}` {
		t.Errorf("metadata %s", got)
	}
}

func TestObjectsOfAnotherFormAreRefused(t *testing.T) {
	t.Parallel()
	for object, want := range map[string]string{
		`{"meta_data":[]}`:     "meta_data of the config drive is not an object",
		`{"network_data":"x"}`: "network_data of the config drive is not an object",
		`{"vendor_data":[]}`:   "vendor_data of the config drive is not an object",
		`{"user_data":5}`:      "neither a text nor an object",
		`{"users":[]}`:         `unknown field "users"`,
		`[]`:                   "neither a text nor an object",
		`5`:                    "neither a text nor an object",
		`{"user_data":"` + strings.Repeat("x", 100<<10) + `"}`: "more than 102400 bytes",
	} {
		if _, err := ForAgent(json.RawMessage(object), worker, 100<<10); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", object, err, want)
		}
	}
}

func TestNoConfigDriveStaysNone(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"", "null", `""`, "{}"} {
		if text, err := ForAgent(json.RawMessage(raw), worker, DefaultMaxSize); text != "" || err != nil {
			t.Errorf("%s: %.20q, %v", raw, text, err)
		}
	}
}

func TestURLsAreCheckedAndPassedOn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://user:hunter2@images.example/cd.gz?sig=hunter2": "",
		"http://192.0.2.1/cd":           "",
		"ftp://user:hunter2@example/cd": `scheme "ftp"`,
		"file:///etc/passwd":            `scheme "file"`,
		"http:///cd":                    "no host",
		"http://user:hunter2@[bad/x%zz": "not valid",
	} {
		raw, _ := json.Marshal(text)
		got, err := ForAgent(raw, worker, DefaultMaxSize)
		switch {
		case want == "" && (err != nil || got != text):
			t.Errorf("%s: %q, %v", text, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// pack encodes bytes as a client does.
func pack(t testing.TB, content []byte) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// anImage is a small ISO image.
func anImage(t testing.TB) []byte {
	t.Helper()
	image, err := iso9660.New(iso9660.Spec{Label: "config-2"})
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, image.Size())
	if _, err := image.ReadAt(content, 0); err != nil {
		t.Fatal(err)
	}
	return content
}

func TestImagesOfClientsAreCheckedAndPassedOn(t *testing.T) {
	t.Parallel()
	image := anImage(t)
	packed := pack(t, image)
	const limit = 1 << 20
	for name, test := range map[string]struct{ text, want string }{
		"an image":               {packed, ""},
		"an image in lines":      {packed[:60] + "\n" + packed[60:] + "\r\n", ""},
		"an image of the limit":  {pack(t, append(bytes.Clone(image), make([]byte, limit-len(image))...)), ""},
		"one byte more":          {pack(t, append(bytes.Clone(image), make([]byte, limit-len(image)+1)...)), "more than 1048576 bytes"},
		"a gzip bomb":            {pack(t, append(bytes.Clone(image), make([]byte, 16<<20)...)), "more than 1048576 bytes"},
		"a bomb that is no ISO":  {pack(t, make([]byte, 16<<20)), "not an ISO 9660 image"},
		"a file that is no ISO":  {pack(t, []byte("#cloud-config")), "not an ISO 9660 image"},
		"an ISO without gzip":    {base64.StdEncoding.EncodeToString(image), "not compressed by gzip"},
		"a text":                 {"#cloud-config", "not base64 text: wrong at byte 0"},
		"a text that is cut off": {packed[:len(packed)/2/4*4], "cut off"},
		"a changed text":         {packed[:len(packed)-16] + "AAAAAAAAAAAA" + packed[len(packed)-4:], "cut off"},
	} {
		raw, _ := json.Marshal(test.text)
		got, err := ForAgent(raw, worker, limit)
		switch {
		case test.want == "" && (err != nil || got != test.text):
			t.Errorf("%s: %v", name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func FuzzForAgent(f *testing.F) {
	packed, _ := json.Marshal(pack(f, anImage(f)))
	for _, seed := range []string{string(packed), `"http://h/"`, `{"meta_data":{"a":[1]},"user_data":{}}`, `{"user_data":"x"}`, `"H4sIAAAA"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		const limit = 1 << 20
		text, err := ForAgent(raw, worker, limit)
		if err != nil || text == "" || strings.Contains(text, "://") {
			return
		}
		if image, err := Decode(text, limit); err != nil || len(image) > limit {
			t.Errorf("accepted, but its image of %d bytes is refused: %v", len(image), err)
		}
	})
}
