//go:build bootvm

package bootvm

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// drivers are the kernel modules that the machine needs for its network card.
var drivers = []string{"virtio_pci", "virtio_net"}

// makeRamdisk copies the kernel of the package into a folder and makes a ramdisk for it.
func makeRamdisk(t *testing.T, folder string) (kernel, ramdisk string) {
	t.Helper()
	system, program := os.Getenv("BOOTVM_SYSTEM"), os.Getenv("BOOTVM_INIT")
	kernels, err := filepath.Glob(filepath.Join(system, "boot", "vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		t.Fatalf("there is no kernel in %q: run make boot-vm", system)
	}
	kernel, ramdisk = filepath.Join(folder, "kernel"), filepath.Join(folder, "ramdisk")
	copyFile(t, kernels[0], kernel)
	var archive cpio
	archive.directory("proc")
	archive.directory("sys")
	archive.directory("modules")
	archive.file("init", 0o755, content(t, program))
	release := strings.TrimPrefix(filepath.Base(kernels[0]), "vmlinuz-")
	for i, module := range modules(t, filepath.Join(system, "lib", "modules", release)) {
		archive.file(fmt.Sprintf("modules/%02d-%s", i, filepath.Base(module)), 0o644, content(t, module))
	}
	if err := os.WriteFile(ramdisk, archive.end(), 0o600); err != nil {
		t.Fatal(err)
	}
	return kernel, ramdisk
}

func content(t *testing.T, file string) []byte {
	t.Helper()
	bytes, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	if err := os.WriteFile(to, content(t, from), 0o600); err != nil {
		t.Fatal(err)
	}
}

// modules lists the files of the drivers and of what they depend on, in the order in which
// they can be loaded. What is built into the kernel has none.
func modules(t *testing.T, folder string) []string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(filepath.Base(path), ".ko"); ok {
			files[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	var add func(name string)
	add = func(name string) {
		file, isModule := files[name]
		if !isModule || slices.Contains(order, file) {
			return
		}
		for _, other := range dependencies(t, file) {
			add(other)
		}
		order = append(order, file)
	}
	for _, driver := range drivers {
		add(driver)
	}
	return order
}

// dependencies are the modules that a module says it needs.
func dependencies(t *testing.T, file string) []string {
	t.Helper()
	module, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = module.Close() }() // it was only read
	about, err := module.Section(".modinfo").Data()
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for field := range bytes.SplitSeq(about, []byte{0}) {
		if list, ok := strings.CutPrefix(string(field), "depends="); ok && list != "" {
			return strings.Split(strings.ReplaceAll(list, "-", "_"), ",")
		}
	}
	return nil
}

// cpio is an archive in the format that Linux takes for a ramdisk ("newc", see
// buffer-format.rst in the kernel's documentation).
type cpio struct {
	bytes.Buffer
	entries int
}

func (c *cpio) directory(path string)                         { c.add(path, 0o040755, nil) }
func (c *cpio) file(path string, mode uint32, content []byte) { c.add(path, 0o100000|mode, content) }

func (c *cpio) add(path string, mode uint32, content []byte) {
	c.entries++
	fmt.Fprintf(c, "070701%08X%08X%08X%08X%08X%08X%08X", c.entries, mode, 0, 0, 1, 0, len(content))
	fmt.Fprintf(c, "%08X%08X%08X%08X%08X%08X%s\x00", 0, 0, 0, 0, len(path)+1, 0, path)
	c.pad()
	c.Write(content)
	c.pad()
}

// pad fills up to a multiple of four bytes.
func (c *cpio) pad() { c.Write(make([]byte, (4-c.Len()%4)%4)) }

// end returns the whole archive.
func (c *cpio) end() []byte {
	c.add("TRAILER!!!", 0, nil)
	return c.Bytes()
}
