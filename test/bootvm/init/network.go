//go:build linux

package main

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"
	"unsafe"
)

// lease is what a DHCP server gives.
type lease struct{ address, server, mask netip.Addr }

// configure gets a lease for an interface and gives the address to it.
func configure(nic *net.Interface) (lease, error) {
	control, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return lease{}, err
	}
	defer func() { _ = syscall.Close(control) }() // nothing was written
	if err := setFlags(control, nic.Name, syscall.IFF_UP); err != nil {
		return lease{}, fmt.Errorf("bring %s up: %w", nic.Name, err)
	}
	l, err := askDHCP(nic)
	if err != nil {
		return l, err
	}
	err = errors.Join(setAddress(control, nic.Name, syscall.SIOCSIFADDR, l.address), setAddress(control, nic.Name, syscall.SIOCSIFNETMASK, l.mask))
	return l, err
}

// Requests of ioctl for an interface: its name, then the value (struct ifreq of Linux).
const (
	nameSize    = 16
	requestSize = 40
)

func setFlags(socket int, name string, flags uint16) error {
	var request [requestSize]byte
	copy(request[:nameSize-1], name)
	binary.NativeEndian.PutUint16(request[nameSize:], flags)
	return ioctl(socket, syscall.SIOCSIFFLAGS, &request)
}

func setAddress(socket int, name string, what uintptr, address netip.Addr) error {
	var request [requestSize]byte
	copy(request[:nameSize-1], name)
	binary.NativeEndian.PutUint16(request[nameSize:], syscall.AF_INET)
	bytes := address.As4()
	copy(request[nameSize+4:], bytes[:])
	return ioctl(socket, what, &request)
}

func ioctl(socket int, what uintptr, request *[requestSize]byte) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(socket), what, uintptr(unsafe.Pointer(request))); errno != 0 { //nolint:gosec // there is no other way
		return errno
	}
	return nil
}

// initModule loads a kernel module.
func initModule(module []byte) error {
	options := []byte{0}
	_, _, errno := syscall.Syscall(syscall.SYS_INIT_MODULE, uintptr(unsafe.Pointer(&module[0])), uintptr(len(module)), uintptr(unsafe.Pointer(&options[0]))) //nolint:gosec // see above
	if errno != 0 && errno != syscall.EEXIST {
		return errno
	}
	return nil
}

// Messages and options of DHCP (RFC 2131, RFC 2132).
const (
	discover, offer, request, acknowledge = 1, 2, 3, 5

	maskOption, addressOption, typeOption, serverOption, endOption = 1, 50, 53, 54, 255

	optionsAt = 240 // after the magic cookie
	tries     = 10
)

// askDHCP gets a lease: a discovery and its offer, then a request and its acknowledgement.
func askDHCP(nic *net.Interface) (lease, error) {
	socket, err := dhcpSocket(nic.Name)
	if err != nil {
		return lease{}, fmt.Errorf("open a socket for DHCP: %w", err)
	}
	defer func() { _ = syscall.Close(socket) }() // nothing is lost
	var number [4]byte
	_, _ = rand.Read(number[:]) // never fails
	offered, err := exchange(socket, number, nic.HardwareAddr, discover, offer, lease{})
	if err != nil {
		return lease{}, err
	}
	return exchange(socket, number, nic.HardwareAddr, request, acknowledge, offered)
}

// dhcpSocket is bound to an interface that has no address yet.
func dhcpSocket(name string) (int, error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return 0, err
	}
	second := syscall.Timeval{Sec: 2}
	err = errors.Join(
		syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_BROADCAST, 1),
		syscall.SetsockoptString(socket, syscall.SOL_SOCKET, syscall.SO_BINDTODEVICE, name),
		syscall.SetsockoptTimeval(socket, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &second),
		syscall.Bind(socket, &syscall.SockaddrInet4{Port: 68}),
	)
	return socket, err
}

// exchange sends a message until the answer to it comes.
func exchange(socket int, number [4]byte, mac net.HardwareAddr, kind, want byte, offered lease) (lease, error) {
	message := dhcpMessage(number, mac, kind, offered)
	buffer := make([]byte, 1500)
	for range tries {
		if err := syscall.Sendto(socket, message, 0, &syscall.SockaddrInet4{Port: 67, Addr: [4]byte{255, 255, 255, 255}}); err != nil {
			fmt.Fprintln(os.Stderr, "init: send to the DHCP server:", err)
		}
		for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); {
			n, _, err := syscall.Recvfrom(socket, buffer, 0)
			if err != nil {
				break // nothing came in time
			}
			if l, kind, ok := parseDHCP(buffer[:n], number); ok && kind == want {
				return l, nil
			}
		}
	}
	return lease{}, errors.New("no DHCP server answers")
}

// dhcpMessage is a message of a client that takes its answers by broadcast.
func dhcpMessage(number [4]byte, mac net.HardwareAddr, kind byte, offered lease) []byte {
	m := make([]byte, optionsAt)
	m[0], m[1], m[2] = 1, 1, byte(len(mac)) // a request over Ethernet
	copy(m[4:], number[:])
	m[10] = 0x80 // broadcast
	copy(m[28:], mac)
	copy(m[236:], []byte{99, 130, 83, 99})
	options := []byte{typeOption, 1, kind}
	if kind == request {
		address, server := offered.address.As4(), offered.server.As4()
		options = append(append(options, addressOption, 4), address[:]...)
		options = append(append(options, serverOption, 4), server[:]...)
	}
	return slices.Concat(m, options, []byte{endOption})
}

// parseDHCP reads an answer to the message of that number.
func parseDHCP(m []byte, number [4]byte) (l lease, kind byte, ok bool) {
	if len(m) < optionsAt || m[0] != 2 || [4]byte(m[4:8]) != number {
		return l, 0, false
	}
	l.address = netip.AddrFrom4([4]byte(m[16:20]))
	for options := m[optionsAt:]; len(options) >= 2 && options[0] != endOption; {
		length := int(options[1])
		if options[0] == 0 || len(options) < 2+length {
			options = options[1:]
			continue
		}
		switch value := options[2 : 2+length]; {
		case options[0] == typeOption && length == 1:
			kind = value[0]
		case options[0] == serverOption && length == 4:
			l.server = netip.AddrFrom4([4]byte(value))
		case options[0] == maskOption && length == 4:
			l.mask = netip.AddrFrom4([4]byte(value))
		}
		options = options[2+length:]
	}
	return l, kind, l.server.IsValid() && l.mask.IsValid()
}
