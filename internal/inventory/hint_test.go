package inventory

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

const gib = 1 << 30

// ssd is a disk whose every attribute is known.
func ssd() *Disk {
	return &Disk{
		Name: "/dev/sda", Model: "MZ7LH480 HBHQ", Size: 447*gib + 1, Serial: " S45PNA0M6 ", Vendor: "SAMSUNG",
		WWN: "0x5002538e00000001", WWNWithExtension: "0x5002538e00000001a", WWNVendorExtension: "0xa", HCTL: "1:0:0:0",
		ByPath: "/dev/disk/by-path/pci-0000:00:17.0-ata-1", Transport: "sata", Raw: json.RawMessage(`{"rotational":false}`),
	}
}

func TestHintsMatch(t *testing.T) {
	for hints, want := range map[string]bool{
		`null`: true,
		`{}`:   true,
		// text
		`{"model":"MZ7LH480 HBHQ"}`:                true,
		`{"model":"  mz7lh480 hbhq "}`:             true,
		`{"model":"MZ7LH480"}`:                     false,
		`{"model":"MZ7LH480%20HBHQ"}`:              false, // values are no URLs
		`{"serial":"s45pna0m6"}`:                   true,
		`{"vendor":"s== Samsung"}`:                 true,
		`{"vendor":"S==Samsung"}`:                  true,
		`{"vendor":"s!= Samsung"}`:                 false,
		`{"vendor":"s!= Intel"}`:                   true,
		`{"vendor":"s> Intel"}`:                    true,
		`{"vendor":"s>= samsung"}`:                 true,
		`{"vendor":"s< samsung"}`:                  false,
		`{"vendor":"s<= samsung"}`:                 true,
		`{"hctl":"s<= 10:0:0:0"}`:                  true, // punctuation sorts before digits
		`{"model":"<in> HBHQ"}`:                    true,
		`{"model":"<in> h480 hb"}`:                 true,
		`{"model":"<in> 20"}`:                      false, // not in the encoded space
		`{"model":"<all-in> HBHQ MZ7"}`:            true,
		`{"model":"<all-in> HBHQ EVO"}`:            false,
		`{"name":"<or> /dev/sdb <or> /dev/sda"}`:   true,
		`{"name":"<or> /dev/sdb <or> /dev/sdc"}`:   false,
		`{"model":"<or> x y <or> mz7lh480 hbhq "}`: true,
		`{"name":"/dev/sda","vendor":"intel"}`:     false,
		`{"wwn":"0x5002538E00000001","wwn_with_extension":"<in> 1a","wwn_vendor_extension":"0xa"}`: true,
		`{"by_path":"<in> ata-1","hctl":"1:0:0:0","tran":"SATA"}`:                                  true,
		`{"model":"vendor s== x"}`:        false, // an operator is one at the beginning only
		`{"serial":"== 5"}`:               false, // not a number
		`{"wwn_vendor_extension":">= 5"}`: false, // nor is 0xa
		// size in GiB; a single = is at least
		`{"size":447}`:                       false,
		`{"size":"447"}`:                     false,
		`{"size":"= 447"}`:                   true,
		`{"size":"=447"}`:                    true,
		`{"size":">= 447"}`:                  true,
		`{"size":">= 448"}`:                  false,
		`{"size":"> 447"}`:                   true,
		`{"size":"<= 447"}`:                  false,
		`{"size":"< 448"}`:                   true,
		`{"size":"!= 447"}`:                  true,
		`{"size":"== 447"}`:                  false,
		`{"size":"<or> 100 <or> 447"}`:       false,
		`{"size":"== +9223372036854775807"}`: false,
		// rotational
		`{"rotational":false}`:   true,
		`{"rotational":"False"}`: true,
		`{"rotational":0}`:       true,
		`{"rotational":"off"}`:   true,
		`{"rotational":true}`:    false,
		`{"rotational":" YES "}`: false,
	} {
		h, err := ParseHints([]byte(hints))
		if err != nil {
			t.Errorf("parse %s: %v", hints, err)
			continue
		}
		if got := h.Match(ssd()); got != want {
			t.Errorf("hints %s match = %t, want %t", hints, got, want)
		}
	}
}

func TestSizeHintOfAWholeNumber(t *testing.T) {
	disk := &Disk{Size: 256 * gib}
	for hints, want := range map[string]bool{
		`{"size":256}`:                 true,
		`{"size":"== 256"}`:            true,
		`{"size":"<or> 128 <or> 256"}`: true,
		`{"size":"<= 256"}`:            true,
		`{"size":"!= 256"}`:            false,
		`{"size":"> 256"}`:             false,
	} {
		h, err := ParseHints([]byte(hints))
		if err != nil {
			t.Fatal(err)
		}
		if got := h.Match(disk); got != want {
			t.Errorf("hints %s match 256 GiB = %t, want %t", hints, got, want)
		}
	}
}

func TestUnknownAttributeFitsNoHintButDiffersFromEveryText(t *testing.T) {
	for hints, want := range map[string]bool{
		`{"vendor":"<in> n"}`: false, `{"vendor":"none"}`: false, `{"vendor":"s< x"}`: false, `{"vendor":"!= 5"}`: false,
		`{"vendor":"s!= ATA"}`: true,
		`{"size":"< 100"}`:     false, `{"size":"!= 100"}`: false,
		`{"rotational":true}`: false, `{"rotational":false}`: false,
	} {
		h, err := ParseHints([]byte(hints))
		if err != nil {
			t.Fatal(err)
		}
		for _, disk := range []*Disk{
			{Name: "/dev/sda"},
			{Vendor: " ", Size: -5 * gib, Raw: json.RawMessage(`{"rotational":null}`)},
			{Raw: json.RawMessage(`{"rotational":false,"rotational":null}`)},
		} {
			if got := h.Match(disk); got != want {
				t.Errorf("hints %s match %+v = %t, want %t", hints, disk, got, want)
			}
		}
	}
}

func TestFirstMatchingDiskIsFound(t *testing.T) {
	disks := []Disk{{Name: "/dev/sda", Size: 10 * gib}, {Name: "/dev/sdb", Size: 100 * gib}, {Name: "/dev/sdc", Size: 200 * gib}}
	h, err := ParseHints([]byte(`{"size":">= 50"}`))
	if err != nil {
		t.Fatal(err)
	}
	if disk := h.Find(disks, nil); disk != &disks[1] {
		t.Errorf("found %+v, want /dev/sdb", disk)
	}
	if disk := h.Find(disks, func(d *Disk) bool { return d.Name == "/dev/sdb" }); disk != &disks[2] {
		t.Errorf("found %+v with /dev/sdb excluded, want /dev/sdc", disk)
	}
	if disk := h.Find(disks[:1], nil); disk != nil {
		t.Errorf("found %+v, want none", disk)
	}
	if disk := (Hints{}).Find(nil, nil); disk != nil {
		t.Errorf("found %+v of no disks", disk)
	}
}

func TestBadHintsAreRefused(t *testing.T) {
	for hints, want := range map[string]string{
		``:             `want an object of hints such as {"size": ">= 200"}, got ""`,
		`"/dev/sda"`:   `want an object of hints such as {"size": ">= 200"}, got "\"/dev/sda\""`,
		`[{"size":1}]`: `want an object of hints such as {"size": ">= 200"}, got "[{\"size\":1}]"`,
		`{"colour":"red"}`: `unknown hint "colour", want one of by_path, hctl, model, name, rotational, serial, size, tran, vendor, wwn, ` +
			`wwn_vendor_extension, wwn_with_extension`,
		`{"wwn":123}`:                       `wwn: want text, got 123`,
		`{"model":null}`:                    `model: want text, got null`,
		`{"model":" "}`:                     `model: is empty, want a value`,
		`{"model":"s== "}`:                  `model: there is no value behind s== in "s=="`,
		`{"model":"<all-in>"}`:              `model: there is no value behind <all-in>`,
		`{"model":"<or> a <or>"}`:           `model: there is no value behind <or> in "<or> a <or>"`,
		`{"model":"s== <in> b"}`:            `model: the value "<in> b" begins with the operator <in>`,
		`{"model":"<in> a <in> b"}`:         `model: the operator <in> comes twice in "<in> a <in> b"; only <or> may be repeated`,
		`{"model":">= big"}`:                `model: the operator >= wants a number, got "big"; text takes s==, s!=, s>=, s<=, s>, s<, <in>, <all-in> and <or>`,
		`{"model":"== nan"}`:                `model: the operator == wants a number, got "nan"; text takes s==, s!=, s>=, s<=, s>, s<, <in>, <all-in> and <or>`,
		`{"model":"<range-in> [ 1 2 ]"}`:    `model: the operator < wants a number, got "range-in> [ 1 2 ]"; text takes s==, s!=, s>=, s<=, s>, s<, <in>, <all-in> and <or>`,
		`{"size":"big"}`:                    `size: want a whole number of GiB above 0, got "big"`,
		`{"size":0}`:                        `size: want a whole number of GiB above 0, got "0"`,
		`{"size":-5}`:                       `size: want a whole number of GiB above 0, got "-5"`,
		`{"size":1.5}`:                      `size: want a whole number of GiB above 0, got "1.5"`,
		`{"size":true}`:                     `size: want a whole number of GiB above 0, got "true"`,
		`{"size":""}`:                       `size: is empty, want a value`,
		`{"size":"<or> 1 <or> x"}`:          `size: want a whole number of GiB above 0, got "x"`,
		`{"size":"s== 100"}`:                `size: the operator s== compares text; numbers take =, ==, !=, >=, <=, >, < and <or>`,
		`{"size":"<in> 100"}`:               `size: the operator <in> compares text; numbers take =, ==, !=, >=, <=, >, < and <or>`,
		`{"size":99999999999999999999}`:     `size: want a whole number of GiB above 0, got "99999999999999999999"`,
		`{"rotational":"sometimes"}`:        `rotational: want true or false, got "sometimes"`,
		`{"rotational":null}`:               `rotational: want true or false, got null`,
		`{"rotational":2,"size":"x","a":1}`: `unknown hint "a", want one of by_path, hctl, model, name, rotational, serial, size, tran, vendor, wwn, wwn_vendor_extension, wwn_with_extension`,
	} {
		_, err := ParseHints([]byte(hints))
		var e *Error
		if !errors.As(err, &e) || e.Error() != want {
			t.Errorf("hints %s\n got: %v\nwant: %s", hints, err, want)
		}
	}
}

func TestHintsAreShownAsWritten(t *testing.T) {
	h, err := ParseHints([]byte(`{"size": "\u003e= 200", "rotational": false, "serial": "` + strings.Repeat("S", 100) + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `rotational false, serial "` + strings.Repeat("S", 63) + `…, size ">= 200"`
	if got := h.String(); got != want {
		t.Errorf("hints shown as\n %s, want\n %s", got, want)
	}
	if h.IsEmpty() || !(Hints{}).IsEmpty() {
		t.Error("IsEmpty is wrong")
	}
}

// FuzzHints parses hints and matches them with a disk: nothing panics, errors are
// fit to show, and text that is accepted as plain finds the disk that has it.
func FuzzHints(f *testing.F) {
	for _, seed := range []struct{ value, have string }{
		{"abc", "ABC "},
		{"s== a b", "a b"},
		{"s!= x", ""},
		{"<or> a <or> b", "b"},
		{"<in> a", "bab"},
		{"<all-in> a b", "ba"},
		{">= 100", "1e3"},
		{"s<= 1:0:0:0", "10:0:0:0"},
		{"<or><or>", ""},
		{"= =", "="},
		{"İ", "i̇"},
		{"== 0x1p-2", "0.25"},
		{"\xff", "\xff"},
	} {
		f.Add("serial", seed.value, seed.have, int64(gib))
		f.Add("size", seed.value, seed.have, int64(-1))
	}
	f.Add("rotational", "yes", "", int64(0))
	f.Fuzz(func(t *testing.T, attribute, value, have string, size int64) {
		raw, err := json.Marshal(map[string]string{attribute: value})
		if err != nil {
			t.Fatal(err)
		}
		disk := &Disk{Serial: have, Model: have, Size: size, Raw: json.RawMessage(value)}
		h, err := ParseHints(raw)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || !utf8.ValidString(e.Error()) || len(e.Error()) > 1024 {
				t.Fatalf("error %q (%T) is not fit to show", err, err)
			}
			return
		}
		if h.Match(disk) != (h.Find([]Disk{*disk}, nil) != nil) {
			t.Fatal("Match and Find differ")
		}
		if attribute == "serial" && operatorOf(normalize(value)) == "" && utf8.ValidString(value) && !h.Match(&Disk{Serial: value}) {
			t.Fatalf("the serial %q does not find its disk", value)
		}
		if shown := h.String(); !strings.HasPrefix(shown, attribute) || len(shown) > 1024 {
			t.Fatalf("hints shown as %q", shown)
		}
		_, _ = ParseHints([]byte(value))
	})
}
