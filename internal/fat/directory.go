package fat

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Attributes of entries of a directory.
const (
	volumeLabel = 0x08
	archive     = 0x20
	longName    = 0x0f
)

// firstDay is the date of all entries: 1 January 1980.
const firstDay = 1<<5 | 1

// directory returns the root directory: the label, then the file with its long name.
func directory(label, name string, size int) []byte {
	short := shortName(name)
	entries := entry(padded(label, 11), volumeLabel, 0, 0)
	entries = append(entries, longEntries(name, checksum(short))...)
	cluster := uint16(firstCluster)
	if size == 0 {
		cluster = 0
	}
	return append(entries, entry(short, archive, cluster, size)...)
}

// entry returns an entry with a name of 8 and 3 characters.
func entry(name string, attributes byte, cluster uint16, size int) []byte {
	le := binary.LittleEndian
	b := append([]byte(name), attributes)
	b = append(b, make([]byte, 10)...) // times of creation and access; upper half of the cluster
	b = append(b, 0, 0)                // time
	b = le.AppendUint16(b, firstDay)   // date
	b = le.AppendUint16(b, cluster)    // first cluster
	return le.AppendUint32(b, uint32(size))
}

// shortName returns a name of 8 and 3 characters for the file. It is unique, because there is only
// one file.
func shortName(name string) string {
	base, extension, _ := strings.Cut(strings.ToUpper(name), ".")
	return padded(base[:min(6, len(base))]+"~1", 8) + padded(extension, 3)
}

// checksum returns the checksum of a short name, which links a long name to it.
func checksum(short string) (sum byte) {
	for _, c := range []byte(short) {
		sum = sum>>1 | sum<<7
		sum += c
	}
	return sum
}

// longEntries returns the entries of a long name. The last part of the name comes first.
func longEntries(name string, sum byte) []byte {
	const (
		inEntry   = 13   // characters
		lastPart  = 0x40 // flag of the order
		nameEnds  = 0
		afterName = 0xffff
	)
	units := []uint16{}
	for _, c := range name {
		units = append(units, uint16(c))
	}
	if len(units)%inEntry != 0 {
		units = append(units, nameEnds)
		for len(units)%inEntry != 0 {
			units = append(units, afterName)
		}
	}
	parts := slices.Collect(slices.Chunk(units, inEntry))
	var entries []byte
	for i, part := range slices.Backward(parts) {
		order := byte(i + 1)
		if i == len(parts)-1 {
			order |= lastPart
		}
		entries = append(entries, longEntry(order, sum, part)...)
	}
	return entries
}

// longEntry returns the entry of one part of a long name: 5, 6 and 2 characters.
func longEntry(order, sum byte, part []uint16) []byte {
	b := make([]byte, entrySize)
	b[0], b[11], b[13] = order, longName, sum
	places := []int{1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30}
	for i, unit := range part {
		binary.LittleEndian.PutUint16(b[places[i]:], unit)
	}
	return b
}
