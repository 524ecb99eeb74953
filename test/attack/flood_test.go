//go:build attack

package attack_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Variables of the environment of a process that floods an engine.
const (
	floodVariable  = "INGOT_ATTACK_FLOOD"  // a key of floods
	targetVariable = "INGOT_ATTACK_TARGET" // host:port
	victimVariable = "INGOT_ATTACK_VICTIM" // UUID of a node
	busyVariable   = "INGOT_ATTACK_BUSY"   // UUID of a node that waits for its ramdisk and is under work
)

// flood is one way to keep an engine busy.
type flood struct {
	connections int
	// sources is the number of addresses from which the flood comes.
	sources int
	// send sends one request over a connection. It returns false if the connection is of no use any
	// more.
	send func(*attacker) bool
}

// floods are the floods that are tried, by name.
var floods = map[string]flood{
	"empty posts":             {64, 1, func(a *attacker) bool { return a.post("/v1/continue_inspection", `{}`) }},
	"unknown machines":        {64, 1, func(a *attacker) bool { return a.post("/v1/continue_inspection", a.inventory(4)) }},
	"unknown, 100 sources":    {100, 100, func(a *attacker) bool { return a.post("/v1/continue_inspection", a.inventory(4)) }},
	"machines of 4,000 ports": {16, 1, func(a *attacker) bool { return a.post("/v1/continue_inspection", a.inventory(4000)) }},
	"bodies that stop": {200, 1, func(a *attacker) bool {
		return a.stop("/v1/continue_inspection", 16<<20, 1<<20)
	}},
	"bodies that stop, 40 sources": {200, 40, func(a *attacker) bool {
		return a.stop("/v1/continue_inspection", 16<<20, 1<<20)
	}},
	"3,000 connections":    {3000, 1, func(a *attacker) bool { return a.hold() }},
	"heartbeats that stop": {16, 1, func(a *attacker) bool { return a.stop("/v1/heartbeat/x", 64<<20, 32<<20-1) }},
	"wrong tokens": {64, 1, func(a *attacker) bool {
		return a.post("/v1/heartbeat/"+a.victim, `{"callback_url":"https://127.0.0.66:9999","agent_version":"9.0","agent_token":"guess"}`)
	}},
	"large heartbeats": {64, 1, func(a *attacker) bool {
		return a.post("/v1/heartbeat/"+a.victim, `{"callback_url":"https://127.0.0.66:9999","agent_version":"`+strings.Repeat("9", 100_000)+`"}`)
	}},
	"lookups of 3,400 addresses": {400, 1, func(a *attacker) bool { return a.get("/v1/lookup?addresses=" + a.macs(3400)) }},
	"lookups of 256 addresses":   {400, 1, func(a *attacker) bool { return a.get("/v1/lookup?addresses=" + a.macs(256)) }},
	"lookups of a busy node":     {1000, 1, func(a *attacker) bool { return a.get("/v1/lookup?node_uuid=" + a.busy) }},
	"resets":                     {64, 1, func(a *attacker) bool { return a.reset("/v1/lookup?addresses="+a.macs(1), "") }},
	"wrong passwords": {600, 1, func(a *attacker) bool {
		return a.exchange("GET", "/v1/nodes", a.password(), "")
	}},
	"resets with wrong passwords": {64, 1, func(a *attacker) bool { return a.reset("/v1/nodes", a.password()) }},
}

// reachDatabase are the floods of which some requests reach the database before they are refused.
var reachDatabase = []string{"lookups of 256 addresses", "lookups of a busy node", "machines of 4,000 ports", "unknown machines", "wrong tokens"}

// attacker is one connection of a flood.
type attacker struct {
	ctx    context.Context //nolint:containedctx // of the whole process
	dialer *net.Dialer
	target string
	victim string
	busy   string
	random *rand.Rand
	conn   net.Conn
	answer [64 << 10]byte
}

// runFlood floods the engine until standard input ends. It then prints how many requests it has
// sent, and in what time.
func runFlood(name string) int {
	f, known := floods[name]
	if !known {
		fmt.Fprintln(os.Stderr, "no such flood:", name)
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // at the latest
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var sent atomic.Int64
	var connections sync.WaitGroup
	began := time.Now()
	for i := range f.connections {
		source := netip.AddrFrom4([4]byte{127, 0, 66, byte(1 + i%f.sources)})
		connections.Go(func() {
			a := &attacker{
				ctx: ctx, target: os.Getenv(targetVariable), victim: os.Getenv(victimVariable), busy: os.Getenv(busyVariable),
				dialer: &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0)), Timeout: time.Second},
				random: rand.New(rand.NewPCG(uint64(i), 66)),
			}
			for ctx.Err() == nil && f.send(a) {
				sent.Add(1)
			}
			a.close()
		})
	}
	connections.Wait()
	fmt.Printf("%d %d\n", sent.Load(), time.Since(began).Milliseconds())
	return 0
}

// connected opens the connection when there is none.
func (a *attacker) connected() bool {
	for a.conn == nil {
		conn, err := a.dialer.DialContext(a.ctx, "tcp", a.target)
		if a.ctx.Err() != nil {
			return false
		}
		if err == nil {
			a.conn = conn
			context.AfterFunc(a.ctx, func() { _ = conn.Close() })
		}
	}
	return true
}

func (a *attacker) close() {
	if a.conn != nil {
		_ = a.conn.Close()
		a.conn = nil
	}
}

func (a *attacker) get(path string) bool { return a.exchange("GET", path, "", "") }

func (a *attacker) post(path, body string) bool { return a.exchange("POST", path, "", body) }

// password returns the header line of a password that nobody has.
func (a *attacker) password() string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "ann:%x", a.random.Uint64())) + "\r\n"
}

// exchange sends a request, with more header lines, and reads a part of its answer.
func (a *attacker) exchange(method, path, header, body string) bool {
	if !a.connected() {
		return false
	}
	_, err := fmt.Fprintf(a.conn, "%s %s HTTP/1.1\r\nHost: x\r\nX-OpenStack-Ironic-API-Version: 1.84\r\n%sContent-Length: %d\r\n\r\n%s", method, path, header, len(body), body)
	if err == nil {
		_, err = a.conn.Read(a.answer[:])
	}
	if err != nil {
		a.close()
	}
	return a.ctx.Err() == nil
}

// stop sends a part of a body, and then nothing more until the engine closes the connection.
func (a *attacker) stop(path string, length, sent int) bool {
	if !a.connected() {
		return false
	}
	_, err := fmt.Fprintf(a.conn, "POST %s HTTP/1.1\r\nHost: x\r\nX-OpenStack-Ironic-API-Version: 1.84\r\nContent-Length: %d\r\n\r\n", path, length)
	block := strings.Repeat(" ", 64<<10)
	for sent > 0 && err == nil {
		_, err = io.WriteString(a.conn, block[:min(sent, len(block))])
		sent -= len(block)
	}
	for err == nil {
		_, err = a.conn.Read(a.answer[:])
	}
	a.close()
	return a.ctx.Err() == nil
}

// hold keeps a connection open without sending a complete request, until the engine closes it.
func (a *attacker) hold() bool {
	if !a.connected() {
		return false
	}
	_, err := io.WriteString(a.conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Filler: "+strings.Repeat("x", 12<<10))
	if err == nil {
		_, _ = a.conn.Read(a.answer[:1])
	}
	a.close()
	return a.ctx.Err() == nil
}

// reset sends a request, with more header lines, and resets the connection.
func (a *attacker) reset(path, header string) bool {
	if !a.connected() {
		return false
	}
	_, _ = fmt.Fprintf(a.conn, "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n", path, header)
	if tcp, ok := a.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	a.close()
	return a.ctx.Err() == nil
}

// mac returns an address that no machine has.
func (a *attacker) mac() string {
	n := a.random.Uint64()
	return fmt.Sprintf("06:%02x:%02x:%02x:%02x:%02x", byte(n), byte(n>>8), byte(n>>16), byte(n>>24), byte(n>>32))
}

func (a *attacker) macs(count int) string {
	macs := make([]string, count)
	for i := range macs {
		macs[i] = a.mac()
	}
	return strings.Join(macs, ",")
}

// inventory returns what a machine with so many ports posts.
func (a *attacker) inventory(ports int) string {
	macs := make([]string, ports)
	for i := range macs {
		macs[i] = a.mac()
	}
	return inventoryOf(macs...)
}

// inventoryOf returns what a machine with these interfaces posts.
func inventoryOf(macs ...string) string {
	interfaces := make([]map[string]any, len(macs))
	for i, mac := range macs {
		interfaces[i] = map[string]any{"name": fmt.Sprintf("eth%d", i), "mac_address": mac, "ipv4_address": "198.51.100.7", "has_carrier": true}
	}
	text, err := json.Marshal(map[string]any{"inventory": map[string]any{
		"interfaces": interfaces,
		"cpu":        map[string]any{"count": 4, "architecture": "x86_64"},
		"memory":     map[string]any{"physical_mb": 8192},
		"disks":      []any{},
		"boot":       map[string]any{"pxe_interface": macs[0], "current_boot_mode": "uefi"},
	}})
	if err != nil {
		panic(err) // maps of strings and numbers always marshal
	}
	return string(text)
}
