package bootiso

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/iso9660/iso9660test"
	"github.com/ingot-metal/ingot/internal/sim/fat"
)

func source(text string) Source {
	return Source{Content: strings.NewReader(text), Size: int64(len(text))}
}

func boot(commandLine string) Boot {
	return Boot{Kernel: source("the kernel"), Ramdisk: source("the ramdisk"), BootLoader: source("the ESP"), CommandLine: commandLine}
}

func TestBootImageHasWhatTheBootLoaderNeeds(t *testing.T) {
	t.Parallel()
	image, err := New(boot("ipa-api-url=http://192.0.2.1:6385  ipa-agent-token=abc nofb"))
	if err != nil {
		t.Fatal(err)
	}
	label, files := iso9660test.Read(t, image)
	if label != BootLabel {
		t.Errorf("label %q", label)
	}
	const menu = `set default=0
set timeout=0

menuentry 'Ramdisk' {
  linux /vmlinuz ipa-api-url=http://192.0.2.1:6385 ipa-agent-token=abc nofb boot_method=vmedia
  initrd /initrd
}
`
	for path, want := range map[string]string{
		"vmlinuz": "the kernel", "initrd": "the ramdisk", "boot/grub/efiboot.img": "the ESP",
		"boot/grub/grub.cfg": menu, "EFI/BOOT/grub.cfg": menu, "EFI/centos/grub.cfg": menu,
	} {
		if diff := cmp.Diff(want, files[path]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestNetworkDataMakesTheImageAConfigDrive(t *testing.T) {
	t.Parallel()
	b := boot("")
	b.NetworkData = []byte(`{"links":[]}`)
	image, err := New(b)
	if err != nil {
		t.Fatal(err)
	}
	label, files := iso9660test.Read(t, image)
	if got := files["openstack/latest/network_data.json"]; label != "config-2" || got != `{"links":[]}` || files["vmlinuz"] != "the kernel" {
		t.Errorf("label %q, network data %q", label, got)
	}
}

func TestGRUBPassesParametersOnUnchanged(t *testing.T) {
	t.Parallel()
	for commandLine, want := range map[string]string{
		"":                             "linux /vmlinuz boot_method=vmedia\n",
		"boot_method=vmedia a=b":       "linux /vmlinuz a=b boot_method=vmedia\n",
		"ipa-api-url=http://[::1]:80":  "linux /vmlinuz 'ipa-api-url=http://[::1]:80' boot_method=vmedia\n",
		"a=$x b=c;d e={f} g=h&i j=*":   "linux /vmlinuz 'a=$x' 'b=c;d' 'e={f}' 'g=h&i' 'j=*' boot_method=vmedia\n",
		"console=ttyS0,115200n8 x=1+1": "linux /vmlinuz console=ttyS0,115200n8 x=1+1 boot_method=vmedia\n",
	} {
		menu, err := Menu(commandLine)
		if err != nil || !strings.Contains(menu, want) {
			t.Errorf("%q: %v\n%s\nwant %s", commandLine, err, menu, want)
		}
	}
}

func TestCommandLinesThatWouldChangeAreRefused(t *testing.T) {
	t.Parallel()
	for commandLine, want := range map[string]string{
		"a=b\n}":                   `the character '\n'`,
		"a='b'":                    `the character '\''`,
		`a="b c"`:                  `the character '"'`,
		`a=\`:                      `the character '\\'`,
		"a=ü":                      `the character 'ü'`,
		"boot_method=net":          `"boot_method=net"`,
		strings.Repeat("x ", 2000): "more than 2047",
	} {
		if _, err := New(boot(commandLine)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", commandLine, err, want)
		}
		if _, err := Parameters(commandLine); err == nil {
			t.Errorf("%.20q: taken for a parameters medium", commandLine)
		}
	}
}

func TestEmptySourcesAreRefused(t *testing.T) {
	t.Parallel()
	b := boot("")
	b.Ramdisk = source("")
	if _, err := New(b); err == nil || !strings.Contains(err.Error(), "initrd") {
		t.Errorf("got %v", err)
	}
}

func TestParametersMediumHasOneParameterALine(t *testing.T) {
	t.Parallel()
	image, err := Parameters("nofb ipa-api-url=http://[::1]/ =x ipa-agent-token=abc console=ttyS0")
	if err != nil {
		t.Fatal(err)
	}
	medium, err := fat.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	got, err := medium.ReadFile("parameters.txt", 4096)
	const want = "ipa-api-url=http://[::1]/\nipa-agent-token=abc\nconsole=ttyS0\nboot_method=vmedia\n"
	if err != nil || string(got) != want || medium.Label() != "ir-vfd-dev" {
		t.Errorf("label %q, %v, file %q, want %q", medium.Label(), err, got, want)
	}
}
