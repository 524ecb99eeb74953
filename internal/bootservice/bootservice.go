// Package bootservice serves machines what they boot their ramdisk from, or an instance that is
// on no disk: iPXE scripts, kernels, initial file systems and virtual media; and BMCs their
// firmware.
//
// Nobody who asks has a password. What belongs to one boot of one machine is under a
// path with a secret, which is stored in the node for as long as the boot needs it, see
// node.RamdiskBoot; so every engine of the database can serve it. The script that a
// machine gets for its MAC address says no more than where that path is, and a machine
// that has nothing to boot gets the same answer as one that nobody knows.
package bootservice

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/ingot-metal/ingot/internal/fairqueue"
	"github.com/ingot-metal/ingot/internal/imagecache"
	"github.com/ingot-metal/ingot/internal/loglimit"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// database is what the service reads.
type database interface {
	Read(ctx context.Context, fn func(*store.Tx) error) error
}

// images gets the images that nodes boot from.
type images interface {
	GetVersion(ctx context.Context, url, version string) (*imagecache.Image, error)
}

// Options say what is served.
type Options struct {
	// ScriptURL begins all URLs in scripts, such as http://192.0.2.1:6386.
	ScriptURL string
	// NetworkOnly serves what machines boot over the network, and no virtual media, which
	// have tokens. It is for a listener without TLS beside one that has it.
	NetworkOnly bool
	Database    database
	Images      images
	Logger      *slog.Logger
}

// Bounds of what callers ask the database.
const (
	lookupSlots = 16              // at once
	maxWaiting  = 1024            // that wait for it
	maxWait     = 5 * time.Second // and how long
)

// How many lines the log has about images that cannot be served, in a second and at once.
const (
	failuresASecond = 1
	failuresAtOnce  = 20
)

// service answers machines.
type service struct {
	url         string
	networkOnly bool
	db          database
	images      images
	lookups     *fairqueue.Queue[fairqueue.Network]
	failures    *loglimit.Logger
}

// New returns the handler of the boot service.
func New(o Options) http.Handler {
	s := &service{
		url: trimSlash(o.ScriptURL), networkOnly: o.NetworkOnly, db: o.Database, images: o.Images,
		lookups:  fairqueue.New[fairqueue.Network](lookupSlots, maxWaiting),
		failures: loglimit.New(o.Logger, failuresASecond, failuresAtOnce),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /boot.ipxe", s.first)
	mux.HandleFunc("GET /boot/mac/{mac}", s.byMAC)
	mux.HandleFunc("GET /boot/{node}/{secret}/{file}", s.file)
	if !o.NetworkOnly {
		mux.HandleFunc("GET /boot/{node}/{secret}/firmware/{name}", s.firmware)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, errNothing) })
	return mux
}

// errNothing is that nothing is served under a path.
var errNothing = errors.New("nothing is served here")

// errBusy is that too many others ask.
var errBusy = errors.New("too many requests wait")

// refuse answers an error, without a word about its reason.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	if errors.Is(err, errNothing) {
		status = http.StatusNotFound
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status)
}

// first answers the script that DHCP hands out.
func (s *service) first(w http.ResponseWriter, _ *http.Request) { writeScript(w, firstScript(s.url)) }

// byMAC answers the script for the machine with a MAC address.
func (s *service) byMAC(w http.ResponseWriter, r *http.Request) {
	mac, ok := node.ParseMAC(r.PathValue("mac"))
	if !ok {
		writeScript(w, nextDeviceScript)
		return
	}
	n, err := s.ask(r, func(tx *store.Tx) (*node.Node, error) {
		owners, err := tx.PortOwners([]string{mac})
		if err != nil || owners[mac] == "" {
			return nil, err
		}
		return tx.Node(owners[mac])
	})
	if err != nil {
		refuse(w, err)
		return
	}
	boot, serves := bootOf(n)
	if !serves || !hasScript(boot) {
		writeScript(w, nextDeviceScript)
		return
	}
	writeScript(w, chainScript(s.url+boot.Path(n.UUID, scriptFile)))
}

// file answers a file of one boot.
func (s *service) file(w http.ResponseWriter, r *http.Request) {
	uuid, secret := r.PathValue("node"), r.PathValue("secret")
	answer, known := files[r.PathValue("file")]
	if !known || !isUUID(uuid) || !isSecret(secret) {
		refuse(w, errNothing)
		return
	}
	n, err := s.ask(r, func(tx *store.Tx) (*node.Node, error) { return tx.Node(uuid) })
	boot, serves := bootOf(n)
	if err == nil && (!serves || n.UUID != uuid || !boot.Opens(secret) || s.networkOnly && !hasScript(boot)) {
		err = errNothing
	}
	if err == nil {
		err = answer(s, w, r, n, boot)
	}
	if err != nil {
		refuse(w, err)
	}
}

// firmware answers the firmware that a BMC installs.
func (s *service) firmware(w http.ResponseWriter, r *http.Request) {
	uuid, secret := r.PathValue("node"), r.PathValue("secret")
	if !isUUID(uuid) || !isSecret(secret) {
		refuse(w, errNothing)
		return
	}
	n, err := s.ask(r, func(tx *store.Tx) (*node.Node, error) { return tx.Node(uuid) })
	if err == nil {
		file, serves := firmwareOf(n)
		if !serves || n.UUID != uuid || !file.Opens(secret) || file.Name != r.PathValue("name") {
			err = errNothing
		} else {
			err = s.send(w, r, n, map[string]string{file.URL: file.Version}, []string{file.URL}, first)
		}
	}
	if err != nil {
		refuse(w, err)
	}
}

// firmwareOf returns what is served to the BMC of a node; false for nil.
func firmwareOf(n *node.Node) (file node.FirmwareFile, serves bool) {
	if n == nil {
		return file, false
	}
	return node.FirmwareFileOf(n)
}

// files are the files of a boot by the last part of their path. An error is answered
// when nothing was written yet.
var files = map[string]func(*service, http.ResponseWriter, *http.Request, *node.Node, node.RamdiskBoot) error{
	scriptFile:  (*service).script,
	kernelFile:  image(func(b node.RamdiskBoot) string { return b.Kernel }),
	ramdiskFile: image(func(b node.RamdiskBoot) string { return b.Ramdisk }),
	mediumFile:  (*service).medium,

	parametersFile: (*service).parameters,
}

// Names of files.
const (
	scriptFile  = "boot.ipxe"
	kernelFile  = "kernel"
	ramdiskFile = "ramdisk"
	mediumFile  = node.BootMediumFile

	parametersFile = node.ParametersMediumFile
)

// script answers the script that boots the ramdisk.
func (s *service) script(w http.ResponseWriter, _ *http.Request, n *node.Node, boot node.RamdiskBoot) error {
	if !hasScript(boot) {
		return errNothing
	}
	writeScript(w, bootScript(s.url, n.UUID, boot))
	return nil
}

// hasScript reports whether a boot is one over the network.
func hasScript(boot node.RamdiskBoot) bool {
	return !boot.ServesMedium() && (boot.Kernel != "" && boot.Ramdisk != "" || boot.ISO != "")
}

// bootOf returns what is served for a node; false for nil.
func bootOf(n *node.Node) (boot node.RamdiskBoot, serves bool) {
	if n == nil {
		return boot, false
	}
	return node.RamdiskBootOf(n)
}

// ask reads a node from the database when it is the caller's turn; nil when there is none.
func (s *service) ask(r *http.Request, read func(*store.Tx) (*node.Node, error)) (n *node.Node, err error) {
	sender, _ := netip.ParseAddrPort(r.RemoteAddr) // the zero value counts as one network
	wait, cancel := context.WithTimeout(r.Context(), maxWait)
	defer cancel()
	leave, err := s.lookups.Enter(wait, fairqueue.NetworkOf(sender.Addr()))
	if err != nil {
		return nil, errBusy
	}
	defer leave()
	err = s.db.Read(wait, func(tx *store.Tx) error {
		n, err = read(tx)
		return err
	})
	if errors.Is(err, node.ErrNotFound) {
		return nil, nil
	}
	return n, err
}
