package checksum

import (
	"strings"
	"testing"
)

const image = "https://user:hunter2@images.example/releases/os.raw?sig=hunter2"

func TestChecksumFilesTellTheImage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file string
		want Checksum
	}{
		"GNU":              {other(sha256Sum) + "  other.raw\n" + sha256Sum + "  os.raw\n", Checksum{SHA256, sha256Sum}},
		"GNU, binary":      {strings.ToUpper(sha512Sum) + " *os.raw\r\n", Checksum{SHA512, sha512Sum}},
		"GNU, folders":     {md5Sum + "\t./releases/os.raw", Checksum{MD5, md5Sum}},
		"names that begin": {other(md5Sum) + "  os.raw.xz\n" + other(md5Sum) + "  my-os.raw\n" + md5Sum + "  os.raw\n", Checksum{MD5, md5Sum}},
		"BSD":              {"SHA256 (other.raw) = " + other(sha256Sum) + "\nSHA256 (os.raw) = " + sha256Sum, Checksum{SHA256, sha256Sum}},
		"openssl":          {"SHA2-256(x)= " + sha256Sum + "\nSHA2-512(os.raw)= " + sha512Sum, Checksum{SHA512, sha512Sum}},
		"alone":            {"\n" + sha256Sum + "\n\n", Checksum{SHA256, sha256Sum}},
		"alone, comment":   {"# os.raw\n" + sha256Sum, Checksum{SHA256, sha256Sum}},
		"strongest":        {"MD5 (os.raw) = " + md5Sum + "\nSHA512 (os.raw) = " + sha512Sum + "\nSHA256 (os.raw) = " + sha256Sum, Checksum{SHA512, sha512Sum}},
		"with sha1":        {sha1Sum + "  os.raw\n" + sha256Sum + "  os.raw\n", Checksum{SHA256, sha256Sum}},
		"twice":            {sha256Sum + "  os.raw\n" + strings.ToUpper(sha256Sum) + "  a/os.raw\n", Checksum{SHA256, sha256Sum}},
		"signed": {
			"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n# os.raw: 5 bytes\nSHA256 (os.raw) = " + sha256Sum +
				"\n-----BEGIN PGP SIGNATURE-----\n\niQIzBAEBCAAdFiEE\n-----END PGP SIGNATURE-----\n",
			Checksum{SHA256, sha256Sum},
		},
	} {
		if got, err := FromFile([]byte(test.file), image); err != nil || got != test.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestEscapedNamesInURLsAreFound(t *testing.T) {
	t.Parallel()
	got, err := FromFile([]byte(sha256Sum+"  my os (1).raw\n"+"SHA256 (x) = "+sha256Sum), "http://h/my%20os%20(1).raw")
	if err != nil || got.Value != sha256Sum {
		t.Errorf("%v, %v", got, err)
	}
}

func TestChecksumFilesWithoutTheImageAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ file, url, want string }{
		"empty":              {"", image, `no line for "os.raw"`},
		"another image":      {sha256Sum + "  other.raw\n", image, `no line for "os.raw"`},
		"a page":             {"<!doctype html>\n<html>os.raw</html>\n", image, `no line for "os.raw"`},
		"two checksums":      {sha256Sum + "  os.raw\n" + other(sha256Sum) + "  old/os.raw\n", image, `different checksums of sha256 for "os.raw"`},
		"only sha1":          {sha1Sum + "  os.raw\n" + sha1Sum + "  b\n", image, "sha1 are not accepted"},
		"a wrong algorithm":  {"SHA512 (os.raw) = " + sha256Sum + "\n\nx", image, "is not one of sha512"},
		"too large":          {strings.Repeat("#", MaxFileSize+1), image, "more than 1048576 bytes"},
		"a URL without name": {sha256Sum, "http://h/", "has no file name"},
		"a broken URL":       {sha256Sum, "http://user:hunter2@[h/%zz", "not valid"},
	} {
		sum, err := FromFile([]byte(test.file), test.url)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, %v, want %q", name, sum, err, test.want)
		}
	}
}

func FuzzFromFile(f *testing.F) {
	f.Add([]byte(sha256Sum+"  os.raw"), image)
	f.Add([]byte("SHA512 (os.raw) = "+sha512Sum), image)
	f.Add([]byte(md5Sum), image)
	f.Add([]byte("\ufeff(os.raw)="), "os.raw")
	f.Fuzz(func(t *testing.T, file []byte, url string) {
		sum, err := FromFile(file, url)
		if err != nil {
			return
		}
		if again, err := Parse(sum.String()); err != nil || again != sum {
			t.Errorf("%v is not a checksum: %v", sum, err)
		}
		if !strings.Contains(strings.ToLower(string(file)), sum.Value) {
			t.Errorf("%v is not in the file", sum)
		}
	})
}
