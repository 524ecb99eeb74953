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
		`{"name":"<or> /dev/sdb <or> /dev/sda"}`:   true,
		`{"name":"<or> /dev/sdb <or> /dev/sdc"}`:   false,
		`{"model":"<or> x y <or> mz7lh480 hbhq "}`: true,
		`{"name":"/dev/sda","vendor":"intel"}`:     false,
		`{"wwn":"0x5002538E00000001","wwn_with_extension":"<in> 1a","wwn_vendor_extension":"0xa"}`: true,
		`{"by_path":"<in> ata-1","hctl":"1:0:0:0","tran":"SATA"}`:                                  true,
		`{"model":"vendor s== x"}`:                   false, // an operator is one at the beginning only
		`{"vendor":"intel","model":"<all-in> HBHQ"}`: false, // the model is not compared any more
		`{"vendor":"intel","serial":">= 5"}`:         false,
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
		if got, err := h.Match(ssd()); got != want || err != nil {
			t.Errorf("hints %s match = %t, %v, want %t", hints, got, err, want)
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
		if got, err := h.Match(disk); got != want || err != nil {
			t.Errorf("hints %s match 256 GiB = %t, %v, want %t", hints, got, err, want)
		}
	}
}

func TestUnknownAttributeFitsNoHintButDiffersFromEveryText(t *testing.T) {
	for hints, want := range map[string]bool{
		`{"vendor":"<in> n"}`: false, `{"vendor":"none"}`: false, `{"vendor":"s< x"}`: false, `{"vendor":"<or> none <or> a"}`: false,
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
			{Size: -5 * gib, Raw: json.RawMessage(`{"rotational":null,"vendor":"","vendor":null}`)},
			{Raw: json.RawMessage(`{"rotational":false,"rotational":null}`)},
		} {
			if got, err := h.Match(disk); got != want || err != nil {
				t.Errorf("hints %s match %+v = %t, %v, want %t", hints, disk, got, err, want)
			}
		}
	}
}

func TestEmptyTextFitsNoHint(t *testing.T) {
	for _, hints := range []string{`{"vendor":"s!= ATA"}`, `{"vendor":"!= 5"}`, `{"vendor":"<all-in> a"}`, `{"vendor":"<in> n"}`, `{"vendor":"ATA"}`} {
		h, err := ParseHints([]byte(hints))
		if err != nil {
			t.Fatal(err)
		}
		for _, disk := range []*Disk{{Vendor: " "}, {Raw: json.RawMessage(`{"vendor":""}`)}} {
			if match, err := h.Match(disk); match || err != nil {
				t.Errorf("hints %s match %+v = %t, %v, want false", hints, disk, match, err)
			}
		}
	}
}

// The agent reads numbers of text attributes as Python does.
func TestTextIsComparedAsANumber(t *testing.T) {
	for serial, want := range map[string]bool{
		"100": true, "1e3": true, " 1_000 ": true, "5.": false, ".5": false, "-200": false, "2E2": true,
		"inf": true, "Infinity": true, "-inf": false, "nan": false, "-nan": false, "1e999": true, "1000000000000000000000000": true,
	} {
		for hint, swap := range map[string]bool{">= 100": false, "< 100": true} {
			h, err := ParseHints([]byte(`{"serial":"` + hint + `"}`))
			if err != nil {
				t.Fatal(err)
			}
			want := want != swap && serial != "nan" && serial != "-nan"
			if got, err := h.Match(&Disk{Serial: serial}); got != want || err != nil {
				t.Errorf("serial %q %s = %t, %v, want %t", serial, hint, got, err, want)
			}
		}
	}
}

func TestHintThatTheAgentCannotCompareIsAnError(t *testing.T) {
	disks := []Disk{
		{Name: "/dev/sda", Vendor: "Intel", Serial: "5", Size: gib},
		{Name: "/dev/sdb", Vendor: "Samsung", Serial: "S45", Size: 2 * gib},
		{Name: "/dev/sdc", Vendor: "Intel", Serial: "7", Size: 3 * gib},
		{Name: "/dev/sdd", Vendor: "Intel", Size: 4 * gib},
	}
	const (
		noNumber = `serial: the operator >= cannot compare what disk "/dev/sdb" has: "S45" is no number`
		noList   = `vendor: the operator <all-in> cannot compare what disk "/dev/sda" has: "Intel" is no list`
	)
	for hints, want := range map[string]struct{ found, err string }{
		`{"serial":">= 5"}`:                        {found: "/dev/sda"}, // /dev/sdb is not compared
		`{"serial":">= 6"}`:                        {err: noNumber},
		`{"vendor":"intel","serial":">= 6"}`:       {found: "/dev/sdc"}, // nor is its serial number
		`{"serial":">= 6","vendor":"intel"}`:       {err: noNumber},     // in this order it is
		`{"vendor":"intel","serial":"> 7"}`:        {err: `serial: the operator > cannot compare what disk "/dev/sdd" has: "" is no number`},
		`{"vendor":"<all-in> in tel"}`:             {err: noList},
		`{"vendor":"<all-in> ['intel']"}`:          {err: noList},
		`{"size":"> 9","vendor":"<all-in> intel"}`: {},
		`{"serial":"<or> 7 <or> 8"}`:               {found: "/dev/sdc"},
		`{"serial":"!= 5","name":"/dev/sda"}`:      {err: `serial: the operator != cannot compare what disk "/dev/sdb" has: "S45" is no number`},
		`{"serial":"= 6","serial":"S45"}`:          {found: "/dev/sdb"}, // the last one counts
	} {
		h, err := ParseHints([]byte(hints))
		if err != nil {
			t.Fatal(err)
		}
		disk, err := h.Find(disks, nil)
		found, text := "", ""
		if disk != nil {
			found = disk.Name
		}
		if err != nil {
			text = err.Error()
		}
		if found != want.found || text != want.err {
			t.Errorf("hints %s find %q, %s\nwant %q, %s", hints, found, text, want.found, want.err)
		}
	}
	h, err := ParseHints([]byte(`{"serial":">= 6"}`))
	if err != nil {
		t.Fatal(err)
	}
	if disk, err := h.Find(disks, func(d *Disk) bool { return d.Name == "/dev/sdb" }); err != nil || disk != &disks[2] {
		t.Errorf("found %v, %v; want /dev/sdc, as an excluded disk is not compared", disk, err)
	}
}

func TestFirstMatchingDiskIsFound(t *testing.T) {
	disks := []Disk{{Name: "/dev/sda", Size: 10 * gib}, {Name: "/dev/sdb", Size: 100 * gib}, {Name: "/dev/sdc", Size: 200 * gib}}
	h, err := ParseHints([]byte(`{"size":">= 50"}`))
	if err != nil {
		t.Fatal(err)
	}
	if disk, err := h.Find(disks, nil); disk != &disks[1] {
		t.Errorf("found %+v, %v, want /dev/sdb", disk, err)
	}
	if disk, err := h.Find(disks, func(d *Disk) bool { return d.Name == "/dev/sdb" }); disk != &disks[2] {
		t.Errorf("found %+v, %v with /dev/sdb excluded, want /dev/sdc", disk, err)
	}
	if disk, err := h.Find(disks[:1], nil); disk != nil || err != nil {
		t.Errorf("found %+v, %v, want none", disk, err)
	}
	if disk, err := (Hints{}).Find(nil, nil); disk != nil || err != nil {
		t.Errorf("found %+v, %v of no disks", disk, err)
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
		`{"model":">= big"}`:                `model: the operator >= wants a number, got "big"; text takes s==, s!=, s>=, s<=, s>, s<, <in> and <or>`,
		`{"model":"== nan"}`:                `model: the operator == wants a number, got "nan"; text takes s==, s!=, s>=, s<=, s>, s<, <in> and <or>`,
		`{"model":"<range-in> [ 1 2 ]"}`:    `model: the operator < wants a number, got "range-in> [ 1 2 ]"; text takes s==, s!=, s>=, s<=, s>, s<, <in> and <or>`,
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
	want := `size ">= 200", rotational false, serial "` + strings.Repeat("S", 63) + `…`
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
		match, err := h.Match(disk)
		found, errFind := h.Find([]Disk{*disk}, nil)
		if match != (found != nil) || (err == nil) != (errFind == nil) || match && err != nil {
			t.Fatalf("Match says %t, %v, and Find %v, %v", match, err, found, errFind)
		}
		if err != nil && (!utf8.ValidString(err.Error()) || len(err.Error()) > 1024) {
			t.Fatalf("error %q is not fit to show", err)
		}
		if attribute == "serial" && operatorOf(normalize(value)) == "" && utf8.ValidString(value) {
			if own, err := h.Match(&Disk{Serial: value}); !own || err != nil {
				t.Fatalf("the serial %q does not find its disk: %v", value, err)
			}
		}
		if shown := h.String(); !strings.HasPrefix(shown, attribute) || len(shown) > 1024 {
			t.Fatalf("hints shown as %q", shown)
		}
		_, _ = ParseHints([]byte(value))
	})
}
