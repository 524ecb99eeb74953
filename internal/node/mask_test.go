package node

import (
	"strings"
	"testing"
)

func TestCredentialsInURLsAreMasked(t *testing.T) {
	for text, want := range map[string]string{
		"plain text": "plain text",
		"at /boot/0d9f8a3e-1111-4222-8333-444444444444/00112233445566778899aabbccddeeff/boot.iso, twice https://h/boot/0d9f8a3e-1111-4222-8333-444444444444/00112233445566778899aabbccddeeff/firmware/x": "at /boot/0d9f8a3e-1111-4222-8333-444444444444/******/boot.iso, twice https://h/boot/0d9f8a3e-1111-4222-8333-444444444444/******/firmware/x",
		"/boot/0d9f8a3e-1111-4222-8333-444444444444/short": "/boot/0d9f8a3e-1111-4222-8333-444444444444/short",
		"why? because":                                       "why? because",
		"http://h/x":                                         "http://h/x",
		"http://u:p@h/x":                                     "http://******@h/x",
		"a http://u@h b ftp://q:r@i/ c":                      "a http://******@h b ftp://******@i/ c",
		"http://u:p@q@h":                                     "http://******@h",
		"https://u:p,q@h/ ftp://h":                           "https://******@h/ ftp://h",
		"http://h/x@y":                                       "http://h/x@y",
		"https://h/i?sig=abc&exp=12#f":                       "https://h/i?sig=******&exp=******#f",
		"https://h/i?flag&sig=abc":                           "https://h/i?flag&sig=******",
		"https://h/i?sig=":                                   "https://h/i?sig=",
		"https://h/i?sig=a=b==&c=d,e;f":                      "https://h/i?sig=******&c=******",
		"https://h/#k?t=abc":                                 "https://h/#k?t=******",
		"https://h/?a=b#t=c":                                 "https://h/?a=******#t=******",
		"https://u:p@h/?to=http://v:q@i/?sig=abc and":        "https://******@h/?to=****** and",
		`Get "https://h/i?sig=abc": dial tcp: refused`:       `Get "https://h/i?sig=******": dial tcp: refused`,
		"exceeded with url: /i?sig=abc (Caused by x)":        "exceeded with url: /i?sig=****** (Caused by x)",
		`{"url":"https://h/i?a=b\u0026sig=abc","x":"y"}`:     `{"url":"https://h/i?a=******","x":"y"}`,
		"<https://h/?sig=abc>; http://u:p@h\nhttp://u:p@i\t": "<https://h/?sig=******>; http://******@h\nhttp://******@i\t",
	} {
		if got := MaskURLs(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestTextForPeopleHasNoCredentialsOfURLs(t *testing.T) {
	got := CutText(strings.Repeat("x", maxOutsideText-40) + " https://u:hunter2@h/?sig=hunter2&sig=hunter2")
	if strings.Contains(got, "hunter") || !strings.Contains(got, "******") {
		t.Errorf("got %s", got[len(got)-60:])
	}
}

func FuzzMaskURLs(f *testing.F) {
	f.Add("http://u:p@h/?a=b&c=d#e=f, https://h?x")
	f.Fuzz(func(t *testing.T, text string) {
		masked := MaskURLs(text)
		if again := MaskURLs(masked); again != masked {
			t.Fatalf("%q: masking %q again gives %q", text, masked, again)
		}
	})
}
