package bootservice_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/bootservice"
	"github.com/ingot-metal/ingot/internal/imagecache"
	"github.com/ingot-metal/ingot/internal/iso9660/iso9660test"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/fat"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// testService is a boot service with its database and its images.
type testService struct {
	t       *testing.T
	db      *store.Store
	service http.Handler
	images  images
	root    string // folder of the images
	log     bytes.Buffer
}

// images delays the images of a cache.
type images struct {
	*imagecache.Cache
	after time.Duration
}

func (i *images) GetVersion(ctx context.Context, url, version string) (*imagecache.Image, error) {
	select {
	case <-time.After(i.after):
		return i.Cache.GetVersion(ctx, url, version)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func newTestService(t *testing.T) *testService {
	t.Helper()
	db, err := store.Open(t.Context(), storetest.Options(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := &testService{t: t, db: db, root: t.TempDir()}
	images, err := imagecache.Open(imagecache.Options{Dir: t.TempDir(), Limit: 1 << 20, FileRoot: s.root, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = images.Close() })
	s.images.Cache = images
	s.service = bootservice.New(bootservice.Options{
		ScriptURL: "http://boot.example:6386/", Database: db, Images: &s.images, Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
	})
	return s
}

// put adds an image and returns its URL.
func (s *testService) put(name, content string) string {
	s.t.Helper()
	path := filepath.Join(s.root, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return "file://" + path
}

// register stores a node with a port, and a boot unless that is nil.
func (s *testService) register(mac string, boot *node.RamdiskBoot) *node.Node {
	s.t.Helper()
	n := &node.Node{UUID: uuid.NewString(), Driver: "fake-hardware", ProvisionState: node.Inspecting}
	if boot != nil {
		boot.StoreIn(n)
	}
	err := s.db.Write(s.t.Context(), func(tx *store.Tx) error {
		if err := tx.CreateNode(n); err != nil {
			return err
		}
		return tx.CreatePort(&node.Port{UUID: uuid.NewString(), NodeID: n.ID, NodeUUID: n.UUID, Address: mac})
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// get sends a request and returns the answer with its body.
func (s *testService) get(method, path string, header ...string) (*http.Response, string) {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.service.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return w.Result(), string(body)
}

const nextDevice = "#!ipxe\nexit\n"

func (s *testService) network() *node.RamdiskBoot {
	return &node.RamdiskBoot{
		Secret: node.NewBootSecret(), Kernel: s.put("kernel", "the kernel"), Ramdisk: s.put("ramdisk", "the ramdisk"),
		KernelParams: "nofb ipa-api-url=http://api",
	}
}

func TestMachineIsSentToItsScript(t *testing.T) {
	s := newTestService(t)
	boot := s.network()
	n := s.register("52:54:00:00:00:01", boot)
	_, first := s.get("GET", "/boot.ipxe")
	if !strings.HasPrefix(first, "#!ipxe\n") || !strings.Contains(first, "http://boot.example:6386/boot/mac/${mac:hexhyp}") || !strings.HasSuffix(first, "exit\n") {
		t.Errorf("the first script is %q", first)
	}
	base := "http://boot.example:6386/boot/" + n.UUID + "/" + boot.Secret
	for _, mac := range []string{"52-54-00-00-00-01", "52:54:00:00:00:01", "52-54-00-00-00-01"} {
		if _, script := s.get("GET", "/boot/mac/"+mac); script != "#!ipxe\nchain --replace --autofree "+base+"/boot.ipxe\n" {
			t.Errorf("the script of %s is %q", mac, script)
		}
	}
	answer, script := s.get("GET", "/boot/"+n.UUID+"/"+boot.Secret+"/boot.ipxe")
	want := "#!ipxe\n" +
		"kernel " + base + "/kernel initrd=ramdisk BOOTIF=01-${mac:hexhyp} nofb ipa-api-url=http://api || goto failed\n" +
		"initrd --name ramdisk " + base + "/ramdisk || goto failed\n" +
		"boot || goto failed\n" +
		":failed\n" +
		"echo The ramdisk of node " + n.UUID + " could not be started, trying again in 10 seconds\n" +
		"imgfree\nsleep 10\n" +
		"chain --replace --autofree http://boot.example:6386/boot/mac/${mac:hexhyp} || goto failed\n"
	if diff := cmp.Diff(want, script); diff != "" || answer.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v, script (-want +got):\n%s", answer.Header, diff)
	}
}

func TestMachinesWithNothingToBootGetTheSameAnswer(t *testing.T) {
	s := newTestService(t)
	s.register("52:54:00:00:00:02", nil)
	s.register("52:54:00:00:00:03", &node.RamdiskBoot{Secret: node.NewBootSecret(), ISO: "http://images/iso"})
	want, _ := s.get("GET", "/boot/mac/52-54-00-00-00-ff")
	for _, mac := range []string{"52-54-00-00-00-02", "52-54-00-00-00-03", "52-54-00-00-00-ff", "nonsense", "%00", strings.Repeat("0", 4000)} {
		answer, script := s.get("GET", "/boot/mac/"+mac)
		if script != nextDevice || answer.StatusCode != want.StatusCode || cmp.Diff(want.Header, answer.Header) != "" {
			t.Errorf("%.40s: %d %v %q", mac, answer.StatusCode, answer.Header, script)
		}
	}
}

func TestImagesAreServedWithRangeAndHead(t *testing.T) {
	s := newTestService(t)
	boot := s.network()
	n := s.register("52:54:00:00:00:01", boot)
	path := "/boot/" + n.UUID + "/" + boot.Secret + "/"
	for _, tc := range []struct {
		method, file, span string
		status             int
		length, body       string
	}{
		{"GET", "kernel", "", 200, "10", "the kernel"},
		{"GET", "ramdisk", "", 200, "11", "the ramdisk"},
		{"GET", "ramdisk", "bytes=4-6", 206, "3", "ram"},
		{"HEAD", "kernel", "", 200, "10", ""},
	} {
		answer, body := s.get(tc.method, path+tc.file, "Range", tc.span)
		if answer.StatusCode != tc.status || answer.Header.Get("Content-Length") != tc.length || body != tc.body {
			t.Errorf("%+v: %d, %s bytes, %q", tc, answer.StatusCode, answer.Header.Get("Content-Length"), body)
		}
	}
}

func TestEverythingElseIsTheSame404(t *testing.T) {
	s := newTestService(t)
	boot := s.network()
	n, other := s.register("52:54:00:00:00:01", boot), s.register("52:54:00:00:00:02", nil)
	without := s.register("52:54:00:00:00:03", &node.RamdiskBoot{Secret: node.NewBootSecret(), ISO: "http://images/iso"})
	held, _ := node.RamdiskBootOf(without)
	for _, request := range [][2]string{
		{"GET", "/boot/" + n.UUID + "/" + node.NewBootSecret() + "/kernel"},
		{"GET", "/boot/" + n.UUID + "//kernel/x"},
		{"GET", "/boot/" + n.UUID + "/" + strings.ToUpper(boot.Secret) + "X/kernel"},
		{"GET", "/boot/" + n.UUID + "/" + boot.Secret + "/passwd"},
		{"GET", "/boot/" + n.UUID + "/" + boot.Secret + "/..%2f..%2fetc%2fpasswd"},
		{"GET", "/boot/" + other.UUID + "/" + boot.Secret + "/kernel"},
		{"GET", "/boot/" + uuid.NewString() + "/" + boot.Secret + "/kernel"},
		{"GET", "/boot/" + without.UUID + "/" + held.Secret + "/kernel"},
		{"GET", "/boot/" + without.UUID + "/" + held.Secret + "/boot.ipxe"},
		{"GET", "/"},
		{"GET", "/v1/nodes"},
		{"POST", "/boot.ipxe"},
		{"PUT", "/boot/" + n.UUID + "/" + boot.Secret + "/kernel"},
	} {
		answer, body := s.get(request[0], request[1])
		if answer.StatusCode == http.StatusTemporaryRedirect || answer.StatusCode == http.StatusMovedPermanently {
			continue // the path is not clean; nothing was looked up
		}
		if answer.StatusCode != http.StatusNotFound || body != "" {
			t.Errorf("%s %s: %d %q", request[0], request[1], answer.StatusCode, body)
		}
	}
	if s.log.Len() > 0 {
		t.Errorf("the log has\n%s", s.log.String())
	}
}

func TestNodeIsNotFoundByItsName(t *testing.T) {
	s := newTestService(t)
	boot := s.network()
	n := s.register("52:54:00:00:00:01", boot)
	name := uuid.NewString()
	err := s.db.Write(t.Context(), func(tx *store.Tx) error {
		after := *n
		after.Name = name
		return tx.UpdateNode(n, &after)
	})
	if err != nil {
		t.Fatal(err)
	}
	if answer, _ := s.get("GET", "/boot/"+name+"/"+boot.Secret+"/kernel"); answer.StatusCode != http.StatusNotFound {
		t.Errorf("status %d", answer.StatusCode)
	}
}

func TestImageThatCannotBeFetchedIsLoggedWithoutEnd(t *testing.T) {
	s := newTestService(t)
	boot := s.network()
	boot.Kernel = "file://" + s.root + "/gone"
	n := s.register("52:54:00:00:00:01", boot)
	for range 100 {
		if answer, body := s.get("GET", "/boot/"+n.UUID+"/"+boot.Secret+"/kernel"); answer.StatusCode != http.StatusServiceUnavailable || body != "" {
			t.Fatalf("%d %q", answer.StatusCode, body)
		}
	}
	lines := strings.Count(s.log.String(), "\n")
	if lines == 0 || lines > 30 || !strings.Contains(s.log.String(), "no such file") {
		t.Errorf("%d lines:\n%s", lines, s.log.String())
	}
}

// held is a database whose reads wait.
type held struct{ release chan struct{} }

func (h held) Read(ctx context.Context, _ func(*store.Tx) error) error {
	select {
	case <-h.release:
		return node.ErrNotFound
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestOneNetworkLeavesRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := held{make(chan struct{})}
		service := bootservice.New(bootservice.Options{Database: slow, Logger: slog.New(slog.DiscardHandler)})
		ask := func(from string) int {
			r := httptest.NewRequest(http.MethodGet, "/boot/mac/52-54-00-00-00-01", nil)
			r.RemoteAddr = from
			w := httptest.NewRecorder()
			service.ServeHTTP(w, r)
			return w.Code
		}
		var flood sync.WaitGroup
		for range 2000 {
			flood.Go(func() { ask("192.0.2.66:4000") })
		}
		synctest.Wait()
		var status int
		flood.Go(func() { status = ask("192.0.2.1:4000") })
		synctest.Wait()
		close(slow.release)
		synctest.Wait()
		if status != http.StatusOK {
			t.Errorf("status %d for another network", status)
		}
		flood.Wait()
	})
}

func TestMachineThatTakesNothingLosesItsConnection(t *testing.T) {
	deadlines := &deadlines{header: http.Header{}}
	s := newTestService(t)
	boot := s.network()
	n := s.register("52:54:00:00:00:01", boot)
	start := time.Now()
	s.service.ServeHTTP(deadlines, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/boot/"+n.UUID+"/"+boot.Secret+"/kernel", nil))
	if deadlines.writes == 0 || !deadlines.deadline.After(start) || deadlines.deadline.After(start.Add(time.Minute)) {
		t.Errorf("%d writes, the last until %s after the start", deadlines.writes, deadlines.deadline.Sub(start))
	}
}

// deadlines is an answer that notes until when it may be written.
type deadlines struct {
	header   http.Header
	deadline time.Time
	writes   int
}

func (d *deadlines) Header() http.Header { return d.header }
func (d *deadlines) WriteHeader(int)     {}
func (d *deadlines) Write(p []byte) (int, error) {
	d.writes++
	return len(p), nil
}
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.deadline = t; return nil }

// TestDownloadMayTakeLongerThanShortAnswers serves from a server whose own bounds are
// shorter than the download that a machine waits for.
func TestDownloadMayTakeLongerThanShortAnswers(t *testing.T) {
	s := newTestService(t)
	boot := s.network()
	n := s.register("52:54:00:00:00:01", boot)
	const bound = 100 * time.Millisecond
	s.images.after = 3 * bound
	server := httptest.NewUnstartedServer(s.service)
	server.Config.ReadTimeout, server.Config.WriteTimeout = bound, bound
	server.Start()
	defer server.Close()
	answer, err := server.Client().Get(server.URL + "/boot/" + n.UUID + "/" + boot.Secret + "/kernel")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || string(body) != "the kernel" {
		t.Errorf("%d %q, %v", answer.StatusCode, body, err)
	}
}

// TestRequestWhoseBodyDoesNotComeHoldsNoImage announces a body, with a length and without.
func TestRequestWhoseBodyDoesNotComeHoldsNoImage(t *testing.T) {
	s := newTestService(t)
	boot := s.network()
	n := s.register("52:54:00:00:00:01", boot)
	server := httptest.NewUnstartedServer(s.service)
	server.Config.ReadTimeout = 100 * time.Millisecond
	server.Start()
	t.Cleanup(server.Close)
	for _, header := range []string{"Content-Length: 10", "Transfer-Encoding: chunked"} {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		if err := connection.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", boot.Path(n.UUID, "kernel"), header)
		if answer, err := io.ReadAll(connection); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 404 ") {
			t.Errorf("%s: %q, %v", header, answer, err)
		}
	}
}

func TestVirtualMediumIsMadeOfTheImagesOfItsBoot(t *testing.T) {
	s := newTestService(t)
	boot := s.network()
	boot.BootLoader = s.put("esp", strings.Repeat("boot loader ", 100))
	n := s.register("52:54:00:00:00:01", boot)

	answer, whole := s.get(http.MethodGet, boot.Path(n.UUID, "boot.iso"))
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("status %d", answer.StatusCode)
	}
	_, files := iso9660test.Read(t, strings.NewReader(whole))
	if files["vmlinuz"] != "the kernel" || files["initrd"] != "the ramdisk" || !strings.Contains(files["boot/grub/grub.cfg"], "nofb ipa-api-url=http://api") {
		t.Errorf("the medium has %q", slices.Sorted(maps.Keys(files)))
	}
	answer, part := s.get(http.MethodGet, boot.Path(n.UUID, "boot.iso"), "Range", "bytes=32769-32773")
	if answer.StatusCode != http.StatusPartialContent || part != "CD001" {
		t.Errorf("a part: status %d, %q", answer.StatusCode, part)
	}
	if _, script := s.get(http.MethodGet, "/boot/mac/52:54:00:00:00:01"); script != nextDevice {
		t.Errorf("the network offers the boot, too: %q", script)
	}
}

// withToken gives a node the token that its medium has.
func (s *testService) withToken(n *node.Node, token string) {
	s.t.Helper()
	err := s.db.Write(s.t.Context(), func(tx *store.Tx) error {
		before, err := tx.Node(n.UUID)
		if err != nil {
			return err
		}
		after := *before
		after.DriverInternalInfo = agent.WithPregenerated(after.DriverInternalInfo, token)
		return tx.UpdateNode(before, &after)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestTokenIsOnTheMediumOfTheParametersAndNowhereElse(t *testing.T) {
	const token = "a-token-of-forty-three-characters-for-tests"
	for name, tc := range map[string]struct {
		apart   bool   // the parameters are on a medium of their own
		carries string // the file that has the token; empty for none
	}{
		"made":                     {false, "boot.iso"},
		"made, parameters apart":   {true, "parameters.img"},
		"given, parameters apart":  {true, "parameters.img"},
		"given, nothing beside it": {false, ""},
		"over the network":         {false, ""},
	} {
		s := newTestService(t)
		boot := s.network()
		boot.ParametersMedium = tc.apart
		switch {
		case strings.HasPrefix(name, "made"):
			boot.BootLoader = s.put("esp", strings.Repeat("boot loader ", 100))
		case strings.HasPrefix(name, "given"):
			boot.Kernel, boot.Ramdisk, boot.ISO = "", "", s.put("iso", "the ISO of somebody else")
		}
		n := s.register("52:54:00:00:00:01", boot)
		s.withToken(n, token)
		for _, file := range []string{"boot.iso", "parameters.img", "boot.ipxe", "kernel", "ramdisk"} {
			answer, body := s.get(http.MethodGet, boot.Path(n.UUID, file))
			if has := strings.Contains(body, token); has != (file == tc.carries) {
				t.Errorf("%s: %s is answered %d, has the token: %v", name, file, answer.StatusCode, has)
			}
			if file == "boot.iso" && boot.ISO != "" && body != "the ISO of somebody else" {
				t.Errorf("%s: boot.iso is %d %.40q", name, answer.StatusCode, body)
			}
			if file == "parameters.img" && (answer.StatusCode == http.StatusOK) != tc.apart {
				t.Errorf("%s: parameters.img is answered %d", name, answer.StatusCode)
			}
		}
	}
}

func TestAgentFindsItsParametersOnTheSecondMedium(t *testing.T) {
	s := newTestService(t)
	boot := &node.RamdiskBoot{Secret: node.NewBootSecret(), ISO: "http://images/iso", ParametersMedium: true, KernelParams: "nofb ipa-api-url=http://api"}
	n := s.register("52:54:00:00:00:01", boot)
	s.withToken(n, "secret")
	_, body := s.get(http.MethodGet, boot.Path(n.UUID, "parameters.img"))
	medium, err := fat.Open(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	text, err := medium.ReadFile("parameters.txt", 4096)
	if err != nil || medium.Label() != "ir-vfd-dev" || string(text) != "ipa-api-url=http://api\nipa-agent-token=secret\nboot_method=vmedia\n" {
		t.Errorf("label %q, %v, parameters %q", medium.Label(), err, text)
	}
}

func TestImageThatChangesDuringABootIsNotServedToIt(t *testing.T) {
	s := newTestService(t)
	boot := s.network()
	version, err := s.images.Prepare(t.Context(), boot.Kernel)
	if err != nil {
		t.Fatal(err)
	}
	boot.Versions = map[string]string{boot.Kernel: version}
	n := s.register("52:54:00:00:00:01", boot)
	if _, body := s.get(http.MethodGet, boot.Path(n.UUID, "kernel")); body != "the kernel" {
		t.Fatalf("unchanged: %q", body)
	}
	s.put("kernel", "another kernel")
	if answer, body := s.get(http.MethodGet, boot.Path(n.UUID, "kernel")); answer.StatusCode != http.StatusServiceUnavailable || body != "" {
		t.Errorf("changed: %d %q", answer.StatusCode, body)
	}
	if !strings.Contains(s.log.String(), "changed since this boot began") {
		t.Errorf("the log has %s", s.log.String())
	}
}

func TestListenerWithoutTLSServesNoVirtualMedia(t *testing.T) {
	s := newTestService(t)
	network, media := s.network(), s.network()
	media.BootLoader = s.put("esp", strings.Repeat("boot loader ", 100))
	over, from := s.register("52:54:00:00:00:01", network), s.register("52:54:00:00:00:02", media)
	s.service = bootservice.New(bootservice.Options{
		ScriptURL: "http://boot.example:6387", NetworkOnly: true, Database: s.db, Images: &s.images, Logger: slog.New(slog.DiscardHandler),
	})
	for path, want := range map[string]int{
		network.Path(over.UUID, "boot.ipxe"): 200, network.Path(over.UUID, "kernel"): 200, "/boot.ipxe": 200,
		media.Path(from.UUID, "boot.iso"): 404, media.Path(from.UUID, "kernel"): 404,
	} {
		if answer, _ := s.get(http.MethodGet, path); answer.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, answer.StatusCode, want)
		}
	}
}

func TestFirmwareIsServedAtItsPathOnly(t *testing.T) {
	s := newTestService(t)
	n := s.register("52:54:00:00:00:01", nil)
	file := node.NewFirmwareFile(s.put("bios.bin", "the firmware"), "")
	err := s.db.Write(t.Context(), func(tx *store.Tx) error {
		before, err := tx.Node(n.UUID)
		if err != nil {
			return err
		}
		after := *before
		file.StoreIn(&after)
		return tx.UpdateNode(before, &after)
	})
	if err != nil {
		t.Fatal(err)
	}
	if answer, body := s.get(http.MethodGet, file.Path(n.UUID)); answer.StatusCode != http.StatusOK || body != "the firmware" {
		t.Errorf("%d %q", answer.StatusCode, body)
	}
	if answer, body := s.get(http.MethodGet, file.Path(n.UUID), "Range", "bytes=4-"); answer.StatusCode != http.StatusPartialContent || body != "firmware" {
		t.Errorf("a part: %d %q", answer.StatusCode, body)
	}
	other := file
	other.Secret = node.NewBootSecret()
	for _, path := range []string{other.Path(n.UUID), file.Path(uuid.NewString()), strings.Replace(file.Path(n.UUID), "bios.bin", "x.bin", 1), "/boot/" + n.UUID + "/" + file.Secret + "/bios.bin"} {
		if answer, _ := s.get(http.MethodGet, path); answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d", path, answer.StatusCode)
		}
	}
}

// TestISOImageIsServedAsItIs to machines that boot it over the network, and to BMCs that attach it.
func TestISOImageIsServedAsItIs(t *testing.T) {
	s := newTestService(t)
	for medium, mac := range map[bool]string{false: "52:54:00:00:00:01", true: "52:54:00:00:00:02"} {
		boot := &node.RamdiskBoot{Secret: node.NewBootSecret(), ISO: s.put("live.iso", "the image"), Network: !medium, Instance: true}
		n := s.register(mac, boot)
		if answer, body := s.get(http.MethodGet, boot.Path(n.UUID, "boot.iso")); answer.StatusCode != http.StatusOK || body != "the image" {
			t.Errorf("medium %v: status %d, %q", medium, answer.StatusCode, body)
		}
		for _, other := range []string{"kernel", "ramdisk"} {
			if answer, _ := s.get(http.MethodGet, boot.Path(n.UUID, other)); answer.StatusCode != http.StatusNotFound {
				t.Errorf("medium %v: %s is answered %d", medium, other, answer.StatusCode)
			}
		}
		if _, script := s.get(http.MethodGet, "/boot/mac/"+mac); (script == nextDevice) != medium {
			t.Errorf("medium %v: the network offers %q", medium, script)
		}
		_, script := s.get(http.MethodGet, boot.Path(n.UUID, "boot.ipxe"))
		if want := "#!ipxe\nsanboot --no-describe http://boot.example:6386" + boot.Path(n.UUID, "boot.iso") + " || goto failed\n"; strings.HasPrefix(script, want) == medium {
			t.Errorf("medium %v: script %q", medium, script)
		}
	}
}

func TestBootOverTheNetworkHasNoVirtualMedium(t *testing.T) {
	s := newTestService(t)
	boot := s.network()
	n := s.register("52:54:00:00:00:01", boot)
	if answer, _ := s.get(http.MethodGet, boot.Path(n.UUID, "boot.iso")); answer.StatusCode != http.StatusNotFound {
		t.Errorf("status %d, want 404", answer.StatusCode)
	}
}
