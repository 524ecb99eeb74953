//go:build linux

// Command init is the only program of a ramdisk: it does what ironic-python-agent does for
// an inspection, as far as booting is concerned. It reads the kernel's command line, gets
// an address by DHCP for the interface that booted, posts a minimal inspection document, and
// switches the machine off.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Println("init has failed:", err)
	} else {
		fmt.Println("init is done")
	}
	_ = syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF) // nobody gets the error
}

func run() error {
	if err := errors.Join(mount("proc"), mount("sysfs"), loadModules("/modules")); err != nil {
		return err
	}
	parameters, err := readParameters("/proc/cmdline")
	if err != nil {
		return err
	}
	nic, err := interfaceThatBooted(parameters["BOOTIF"])
	if err != nil {
		return err
	}
	lease, err := configure(nic)
	if err != nil {
		return err
	}
	fmt.Println("init:", nic.Name, nic.HardwareAddr, "has the address", lease.address)
	return post(parameters, nic, lease)
}

// mount mounts a virtual file system at the folder of its usual name.
func mount(kind string) error {
	at := map[string]string{"proc": "/proc", "sysfs": "/sys"}[kind]
	if err := os.MkdirAll(at, 0o750); err != nil {
		return err
	}
	return syscall.Mount(kind, at, kind, 0, "")
}

// loadModules loads the kernel modules in a folder in the order of their names.
func loadModules(folder string) error {
	names, err := filepath.Glob(filepath.Join(folder, "*.ko"))
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		module, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := initModule(module); err != nil {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	return nil
}

// readParameters reads the words of the command line that have a value.
func readParameters(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fmt.Printf("init: booted with %s", text)
	parameters := map[string]string{}
	for word := range strings.FieldsSeq(string(text)) {
		if key, value, ok := strings.Cut(word, "="); ok {
			parameters[key] = value
		}
	}
	return parameters, nil
}

// interfaceThatBooted waits for the interface of BOOTIF, such as 01-52-54-00-12-34-56.
func interfaceThatBooted(bootif string) (*net.Interface, error) {
	want := strings.ReplaceAll(strings.TrimPrefix(bootif, "01-"), "-", ":")
	for range 100 {
		interfaces, err := net.Interfaces()
		if err != nil {
			return nil, err
		}
		for _, nic := range interfaces {
			if nic.HardwareAddr.String() == want {
				return &nic, nil
			}
		}
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // drivers find their devices a while after they are loaded
	}
	return nil, fmt.Errorf("there is no interface %q", want)
}

// post sends the inspection document, again while the engine does not take it.
func post(parameters map[string]string, nic *net.Interface, l lease) error {
	document, err := json.Marshal(map[string]any{"inventory": map[string]any{
		"interfaces": []map[string]any{{"name": nic.Name, "mac_address": nic.HardwareAddr.String(), "ipv4_address": l.address.String(), "has_carrier": true}},
		"cpu":        map[string]any{"count": runtime.NumCPU(), "architecture": "x86_64"},
		"memory":     map[string]any{"physical_mb": 512},
		"disks":      []any{},
		"boot":       map[string]any{"current_boot_mode": "bios", "pxe_interface": parameters["BOOTIF"]},
		"hostname":   "booted-from-" + parameters["BOOTIF"],
	}})
	if err != nil {
		return err
	}
	for range 10 {
		if err = postOnce(parameters["ipa-inspection-callback-url"], document); err == nil {
			return nil
		}
		fmt.Println("init:", err)
		time.Sleep(2 * time.Second) //nolint:forbidigo // between two tries
	}
	return err
}

func postOnce(url string, document []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(document))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000)) // only for people
	if answer.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("the engine answers %s: %s", answer.Status, text)
	}
	fmt.Println("init: posted,", answer.Status)
	return nil
}
