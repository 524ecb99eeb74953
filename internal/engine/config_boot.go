package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/driver/netboot"
	"github.com/ingot-metal/ingot/internal/imagecache"
	"github.com/ingot-metal/ingot/internal/node"
)

// BootConfig is about the service from which machines boot their ramdisk.
type BootConfig struct {
	Listen    string `koanf:"listen"`     // host:port; empty: nothing is served
	PublicURL string `koanf:"public_url"` // beginning of the URLs for machines and BMCs
	// TLSCertificate and TLSKey are PEM files. They are read again when they change. Both empty
	// means plain http.
	TLSCertificate string `koanf:"tls_certificate"`
	TLSKey         string `koanf:"tls_key"`
	// IPXEListen is another address, without TLS, for machines that boot over the network. IPXEURL
	// begins the URLs for these machines. Both empty means that Listen and PublicURL serve them,
	// too.
	IPXEListen string `koanf:"ipxe_listen"`
	IPXEURL    string `koanf:"ipxe_url"`
	// Kernel and Ramdisk are URLs of the ramdisk for nodes that name none. KernelByArch and
	// RamdiskByArch win for the architectures that they have.
	Kernel        string   `koanf:"kernel"`
	Ramdisk       string   `koanf:"ramdisk"`
	KernelByArch  []string `koanf:"kernel_by_arch"`  // cpu_arch:URL
	RamdiskByArch []string `koanf:"ramdisk_by_arch"` // cpu_arch:URL
	// ISO is the URL of virtual media that boot the ramdisk. Empty means that the engine makes
	// them.
	ISO            string   `koanf:"iso"`
	ISOByArch      []string `koanf:"iso_by_arch"` // cpu_arch:URL
	BootLoader     string   `koanf:"boot_loader"` // URL of the EFI system partition of virtual media
	KernelParams   string   `koanf:"kernel_params"`
	CacheSize      GiB      `koanf:"cache_size"` // of images, in the data folder
	FileRoot       string   `koanf:"file_root"`  // folder of images with file:// URLs; empty: none
	MaxConnections int      `koanf:"max_connections"`
}

func defaultBoot() BootConfig {
	return BootConfig{KernelParams: "nofb", CacheSize: 20, MaxConnections: 1024}
}

// problems returns what is wrong with the settings of the boot service.
func (c BootConfig) problems(api APIConfig) []error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.CacheSize >= 1, "boot.cache_size: want at least 1 (GiB), got %d", c.CacheSize)
	check(c.MaxConnections >= 2, "boot.max_connections: want at least 2, got %d", c.MaxConnections)
	check((c.TLSCertificate == "") == (c.TLSKey == ""), "boot.tls_certificate, boot.tls_key: want both or none of them")
	if c.Listen != "" {
		check(isAddress(c.Listen), "boot.listen: want host:port with a port from 0 to 65535, got %q", c.Listen)
		check(isBaseURL(c.PublicURL), "boot.public_url: is required with boot.listen: the URL, such as http://192.0.2.1:6386, at which machines reach that address")
		check(!c.tls() || strings.HasPrefix(c.PublicURL, "https://"), "boot.public_url: has to begin with https:// when boot.tls_certificate is set")
		check(isBaseURL(api.PublicURL), "api.public_url: is required with boot.listen: the URL, such as http://192.0.2.1:6385, at which ramdisks reach the API")
		check(!api.tls() || strings.HasPrefix(api.PublicURL, "https://"), "api.public_url: has to begin with https:// when boot.listen and api.tls_certificate are set: ramdisks get it, and the API speaks nothing but TLS")
	}
	if c.IPXEListen != "" {
		check(c.Listen != "", "boot.ipxe_listen: does nothing without boot.listen")
		check(isAddress(c.IPXEListen), "boot.ipxe_listen: want host:port with a port from 0 to 65535, got %q", c.IPXEListen)
		check(isBaseURL(c.IPXEURL), "boot.ipxe_url: is required with boot.ipxe_listen: the URL, such as http://192.0.2.1:6387, at which machines reach that address")
	}
	check(c.IPXEListen != "" || c.IPXEURL == "", "boot.ipxe_url: does nothing without boot.ipxe_listen")
	_, err := c.ramdisks()
	_, isoErr := c.isos()
	return append(errs, err, isoErr)
}

// tls reports whether the boot service is served over TLS.
func (c BootConfig) tls() bool { return c.TLSCertificate != "" && c.TLSKey != "" }

// isAddress reports whether an address can be listened on.
func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	return err == nil
}

// isBaseURL reports whether paths can be appended to a URL.
func isBaseURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.RawQuery == "" && u.Fragment == "" && !strings.ContainsAny(text, " \t\r\n")
}

// defaultArch is the key of the ramdisk for all architectures that have none of their own.
const defaultArch = ""

// ramdisks returns the ramdisks by architecture.
func (c BootConfig) ramdisks() (map[string]netboot.Ramdisk, error) {
	ramdisks := map[string]netboot.Ramdisk{}
	for _, list := range []struct {
		key string
		all []string
		set func(*netboot.Ramdisk, string)
	}{
		{"boot.kernel", c.KernelByArch, func(r *netboot.Ramdisk, url string) { r.Kernel = url }},
		{"boot.ramdisk", c.RamdiskByArch, func(r *netboot.Ramdisk, url string) { r.Initial = url }},
	} {
		for _, row := range list.all {
			arch, url, err := byArch(list.key, row)
			if err != nil {
				return nil, err
			}
			ramdisk := ramdisks[arch]
			list.set(&ramdisk, url)
			ramdisks[arch] = ramdisk
		}
	}
	if err := c.defaultProblem(); err != nil {
		return nil, err
	}
	ramdisks[defaultArch] = netboot.Ramdisk{Kernel: c.Kernel, Initial: c.Ramdisk}
	for arch, ramdisk := range ramdisks {
		if (ramdisk.Kernel == "") != (ramdisk.Initial == "") {
			return nil, fmt.Errorf("boot.kernel_by_arch, boot.ramdisk_by_arch: want both or none of them for %s", arch)
		}
	}
	return ramdisks, nil
}

// byArch splits a row ARCH:URL of a list. The key without _by_arch is for errors.
func byArch(key, row string) (arch, url string, err error) {
	arch, url, found := strings.Cut(row, ":")
	if !found || arch == defaultArch {
		return "", "", fmt.Errorf("%s_by_arch: want ARCH:URL, such as aarch64:http://192.0.2.1/kernel, got %q", key, node.MaskURLs(row))
	}
	if err := imagecache.CheckURL(url); err != nil {
		return "", "", fmt.Errorf("%s_by_arch: the URL of %s %w", key, arch, err)
	}
	return arch, url, nil
}

// isos returns the ISO images that boot the ramdisk, by architecture.
func (c BootConfig) isos() (map[string]string, error) {
	isos := map[string]string{defaultArch: c.ISO}
	for _, row := range c.ISOByArch {
		arch, url, err := byArch("boot.iso", row)
		if err != nil {
			return nil, err
		}
		isos[arch] = url
	}
	return isos, nil
}

// defaultProblem returns what is wrong with the ramdisk for all other architectures, nil if nothing
// is.
func (c BootConfig) defaultProblem() error {
	if (c.Kernel == "") != (c.Ramdisk == "") {
		return errors.New("boot.kernel, boot.ramdisk: want both or none of them")
	}
	for key, url := range map[string]string{"boot.kernel": c.Kernel, "boot.ramdisk": c.Ramdisk, "boot.boot_loader": c.BootLoader, "boot.iso": c.ISO} {
		if url == "" {
			continue
		}
		if err := imagecache.CheckURL(url); err != nil {
			return fmt.Errorf("%s: the URL %w", key, err)
		}
	}
	return nil
}

// netboot returns the configuration as the boot interfaces read it.
func (c BootConfig) netboot(api APIConfig) (netboot.Config, error) {
	ramdisks, err := c.ramdisks()
	if err != nil {
		return netboot.Config{}, err
	}
	isos, err := c.isos()
	if err != nil {
		return netboot.Config{}, err
	}
	byDefault := ramdisks[defaultArch]
	delete(ramdisks, defaultArch)
	return netboot.Config{
		Serves: c.Listen != "", URL: strings.TrimSuffix(c.PublicURL, "/"), APIURL: api.PublicURL,
		Default: byDefault, ByArch: ramdisks, ISOs: isos, BootLoader: c.BootLoader, KernelParams: c.KernelParams,
	}, nil
}

// imageFolder is the name of the folder of images in the data folder.
const imageFolder = "images"

// openImages opens the cache of images in the data folder.
func (c BootConfig) openImages(dataDir string, log *slog.Logger) (*imagecache.Cache, error) {
	const gib = 1 << 30
	return imagecache.Open(imagecache.Options{
		Dir: filepath.Join(dataDir, imageFolder), Limit: int64(c.CacheSize) * gib, FileRoot: c.FileRoot, Logger: log,
	})
}
