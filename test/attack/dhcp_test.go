//go:build attack

package attack_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/test/process"
)

// Limits of the posts of hostile machines, and of how much of them may be left.
const (
	hugeMachines = 20
	hugePorts    = 4096 // of each, the most that a post may have
	claimsOfOne  = 64   // auto_discovery.max_ports
	filesOfOne   = 32   // the bound that a filter is given, to test the filter's own bound
	refusedPosts = 3000

	accessLines  = 2000    // at once, and 20 in each second
	limitedLines = 2 * 200 // at once, and 20 a second: refusals, and ignored parts of inventories
	otherLines   = 100     // of the start, of enrolled machines and of what an administrator does here
	longestLine  = 3 << 10 // bytes
)

// Nodes that people register.
const (
	idleNode    = iota + 1 // manageable
	waitingNode            // waits for its ramdisk
	squatted               // manageable; another machine has posted its address before it was registered
	lateNode               // waits for its ramdisk; it is registered when all posts have been answered
)

// Contents of the files of a filter, apart from those of machines that are served.
const (
	unknownFile   = "unknown_hosts_filter"
	servedUnknown = "*:*:*:*:*:*\n"
	deniedUnknown = "*:*:*:*:*:*,ignore\n"
)

// filter is an `ingot pxe-filter` in a process of its own.
type filter struct {
	*process.Process
	t     *testing.T
	hosts string // folder
}

// startFilter runs a filter on the database of an engine until the test ends.
func (e *engine) startFilter(name string, flags ...string) *filter {
	e.t.Helper()
	f := &filter{t: e.t, hosts: filepath.Join(e.dir, name)}
	if err := os.Mkdir(f.hosts, 0o700); err != nil {
		e.t.Fatal(err)
	}
	args := append([]string{"pxe-filter", "--data", filepath.Join(e.dir, "data"), "--dhcp-hostsdir", f.hosts, "--poll-interval", "100ms"}, flags...)
	f.Process = process.Run(e.t, exec.Command(binary, args...), filepath.Join(e.dir, name+".log"))
	return f
}

// files returns what the folder says, by file.
func (f *filter) files() map[string]string {
	f.t.Helper()
	entries, err := os.ReadDir(f.hosts)
	if err != nil {
		f.t.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue // its lock, and what it is writing
		}
		text, err := os.ReadFile(filepath.Join(f.hosts, entry.Name()))
		if err != nil {
			f.t.Fatal(err)
		}
		files[entry.Name()] = string(text)
	}
	return files
}

// awaitFiles waits until some files have these texts.
func (f *filter) awaitFiles(want map[string]string) {
	f.t.Helper()
	var wrong string
	defer func() {
		if f.t.Failed() && wrong != "" {
			f.t.Log(wrong)
		}
	}()
	process.Eventually(f.t, waitTimeout, "files in "+f.hosts, func() bool {
		files := f.files()
		wrong = ""
		for name, text := range want {
			if files[name] != text {
				wrong = fmt.Sprintf("file %s is %q, want %q", name, files[name], text)
			}
		}
		return wrong == ""
	})
}

// checkLog checks that a process has logged at most this many lines, none of them long. It returns
// how many there are.
func checkLog(t *testing.T, p *process.Process, most int) (count int) {
	t.Helper()
	longest := 0
	for line := range strings.Lines(p.Output(t)) {
		count, longest = count+1, max(longest, len(line))
	}
	if count > most || longest > longestLine {
		t.Errorf("%s has %d lines of up to %d bytes, want at most %d of %d", p.Log, count, longest, most, longestLine)
	}
	return count
}

// mostClaims returns the largest number of addresses that a node claims.
func (e *engine) mostClaims() (most int) {
	e.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(e.dir, "data", "ingot.db")+"?mode=ro")
	if err != nil {
		e.t.Fatal(err)
	}
	defer db.Close()
	const query = `SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM claims GROUP BY node_id)`
	if err := db.QueryRowContext(e.t.Context(), query).Scan(&most); err != nil {
		e.t.Fatal(err)
	}
	return most
}

// TestHugeMachinesTakeNoDHCPFromOthers has two filters next to the engine. One serves unknown
// machines, as with discovery. The other serves machines with idle nodes, such as discovered nodes.
func TestHugeMachinesTakeNoDHCPFromOthers(t *testing.T) {
	began := time.Now()
	e := startEngine(t, "")
	e.register(idleNode)
	e.awaitRamdisk(waitingNode)
	discovery := e.startFilter("discovery", "--auto-discovery")
	idle := e.startFilter("idle", "--serve", "idle", "--set", fmt.Sprintf("auto_discovery.max_ports=%d", filesOfOne))
	wantDiscovery := map[string]string{unknownFile: servedUnknown}
	denied(wantDiscovery, idleNode)
	served(wantDiscovery, waitingNode)
	wantIdle := map[string]string{unknownFile: deniedUnknown}
	served(wantIdle, idleNode, waitingNode)
	discovery.awaitFiles(wantDiscovery)
	idle.awaitFiles(wantIdle)

	for i := range hugeMachines {
		macs := make([]string, hugePorts)
		for j := range macs {
			macs[j] = fmt.Sprintf("06:00:00:%02x:%02x:%02x", i, j>>8, j&0xff)
		}
		if i == 0 {
			macs[0] = macOf(squatted)
		}
		e.clientAt(mallory).must(t, http.MethodPost, "/v1/continue_inspection", inventoryOf(macs...))
	}
	e.refusePosts()
	process.Eventually(t, waitTimeout, "the ports of all machines", func() bool { return e.count("ports") >= hugeMachines*claimsOfOne })
	served(wantIdle, squatted) // as long as nobody else has its address
	idle.awaitFiles(wantIdle)

	// When the files of a filter are right, the filter has read everything before.
	e.register(squatted)
	e.awaitRamdisk(lateNode)
	denied(wantDiscovery, squatted)
	served(wantDiscovery, lateNode)
	discovery.awaitFiles(wantDiscovery)
	served(wantIdle, lateNode)
	idle.awaitFiles(wantIdle)
	if got := len(discovery.files()); got != len(wantDiscovery) {
		t.Errorf("where unknown machines are served there are %d files, want those of registered nodes: %d", got, len(wantDiscovery))
	}
	most := len(wantIdle) + hugeMachines*filesOfOne - 1 // the squatted address has one file only
	if got := len(idle.files()); got != most {
		t.Errorf("where idle machines are served there are %d files, want %d", got, most)
	}

	claims, ports := e.mostClaims(), e.count("ports")
	if claims > claimsOfOne || ports > hugeMachines*claimsOfOne+lateNode {
		t.Errorf("a node claims %d addresses, want at most %d; there are %d ports", claims, claimsOfOne, ports)
	}
	seconds := int(time.Since(began).Seconds()) + 1
	engineLines := checkLog(t, e.process, accessLines+limitedLines+otherLines+40*seconds)
	filterLines := checkLog(t, idle.Process, limitedLines+otherLines+20*seconds)
	_, memory, err := e.process.Memory()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d posts of %d addresses and %d refused ones in %d s: at most %d claims of a node, %d ports; %d and %d files; %d lines of the engine, %d of a filter; memory %d MB",
		hugeMachines, hugePorts, refusedPosts, seconds, claims, ports, len(discovery.files()), len(idle.files()), engineLines, filterLines, memory>>20)
}

// served adds the files of registered nodes whose machines get an address.
func served(files map[string]string, nodes ...int) {
	for _, i := range nodes {
		files[macOf(i)] = macOf(i) + "\n"
	}
}

// denied adds the file of a registered node whose machine gets none.
func denied(files map[string]string, i int) { files[macOf(i)] = macOf(i) + ",ignore\n" }

// refusePosts posts as the machine of a registered node that does not wait for it, from many
// addresses.
func (e *engine) refusePosts() {
	e.t.Helper()
	const sources = 16
	body := []byte(inventoryOf(macOf(idleNode)))
	var posters sync.WaitGroup
	defer posters.Wait()
	for i := range sources {
		c := e.clientAt(netip.AddrFrom4([4]byte{127, 0, 66, byte(1 + i)}))
		posters.Go(func() {
			for range refusedPosts / sources {
				status, text, err := c.do(e.t.Context(), http.MethodPost, "/v1/continue_inspection", body)
				if err != nil || !slices.Contains([]int{http.StatusNotFound, http.StatusServiceUnavailable}, status) {
					e.t.Errorf("a post for a node that waits for none: %d %v %s", status, err, text)
					return
				}
			}
		})
	}
}
