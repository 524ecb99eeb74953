package engine_test

import (
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/engine"
)

func TestBootServiceNeedsItsAddresses(t *testing.T) {
	const listen = "boot.listen=127.0.0.1:0"
	urls := []string{"boot.public_url=http://192.0.2.1:6386", "api.public_url=http://192.0.2.1:6385"}
	for name, tc := range map[string]struct {
		set  []string
		want string // of the error; empty for none
	}{
		"off":                    {nil, ""},
		"on":                     {append([]string{listen}, urls...), ""},
		"with a ramdisk":         {append([]string{listen, "boot.kernel=http://h/k", "boot.ramdisk=file:///srv/r"}, urls...), ""},
		"with two":               {append([]string{listen, "boot.kernel_by_arch=aarch64:http://h:80/k", "boot.ramdisk_by_arch=aarch64:http://h/r"}, urls...), ""},
		"without any URL":        {[]string{listen}, "boot.public_url"},
		"without the API's URL":  {[]string{listen, urls[0]}, "api.public_url"},
		"without a port":         {append([]string{"boot.listen=192.0.2.1"}, urls...), "boot.listen"},
		"without a scheme":       {append([]string{listen, "boot.kernel=h/k", "boot.ramdisk=http://h/r"}, urls...), "neither http://"},
		"without the initrd":     {[]string{"boot.kernel=http://h/k"}, "boot.kernel, boot.ramdisk"},
		"without it for one":     {[]string{"boot.kernel_by_arch=aarch64:http://h/k"}, "aarch64"},
		"without an arch":        {[]string{"boot.kernel_by_arch=http//k"}, "ARCH:URL"},
		"without room":           {[]string{"boot.cache_size=0"}, "boot.cache_size"},
		"without connections":    {[]string{"boot.max_connections=1"}, "boot.max_connections"},
		"with an ISO":            {append([]string{listen, "boot.iso=https://h/i", "boot.iso_by_arch=aarch64:http://h/i"}, urls...), ""},
		"with another ISO":       {append([]string{listen, "boot.iso=ftp://h/i"}, urls...), "boot.iso: the URL"},
		"with half a list":       {append([]string{listen, "boot.iso_by_arch=http://h/i"}, urls...), "boot.iso_by_arch"},
		"with TLS":               {[]string{listen, urls[1], "boot.public_url=https://h", "boot.tls_certificate=a", "boot.tls_key=b"}, ""},
		"with half of TLS":       {append([]string{listen, "boot.tls_certificate=a"}, urls...), "boot.tls_certificate, boot.tls_key"},
		"with http for the API":  {append([]string{listen, "api.tls_certificate=a", "api.tls_key=b"}, urls...), "api.public_url: has to begin with https://"},
		"with https for the API": {[]string{listen, urls[0], "api.public_url=https://h", "api.tls_certificate=a", "api.tls_key=b"}, ""},
		"with TLS of a proxy":    {[]string{listen, urls[0], "api.public_url=https://h"}, ""},
		"with TLS and http":      {append([]string{listen, "boot.tls_certificate=a", "boot.tls_key=b"}, urls...), "https://"},
		"with http for iPXE":     {append([]string{listen, "boot.ipxe_listen=127.0.0.1:0", "boot.ipxe_url=http://h"}, urls...), ""},
		"with half of iPXE":      {append([]string{listen, "boot.ipxe_listen=127.0.0.1:0"}, urls...), "boot.ipxe_url"},
		"with the other half":    {append([]string{listen, "boot.ipxe_url=http://h"}, urls...), "boot.ipxe_listen"},
		"with iPXE alone":        {[]string{"boot.ipxe_listen=127.0.0.1:0", "boot.ipxe_url=http://h"}, "boot.listen"},
		"with firmware":          {append([]string{listen, "redfish.firmware_source=local"}, urls...), ""},
		"without, and firmware":  {[]string{"redfish.firmware_source=local"}, "redfish.firmware_source"},
		"with firmware of http":  {[]string{"redfish.firmware_source=http"}, ""},
		"with other firmware":    {[]string{"redfish.firmware_source=swift"}, "want local or http"},
		"with a query in a base": {append([]string{listen, urls[1]}, "boot.public_url=http://h/?a=b"), "boot.public_url"},
	} {
		set := map[string]string{}
		for _, pair := range tc.set {
			key, value, _ := strings.Cut(pair, "=")
			set[key] = value
		}
		_, err := engine.LoadConfig(engine.Sources{Set: set})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
