// Package bootservice serves machines what they boot: iPXE scripts, kernels, initial file systems
// and virtual media, for the ramdisk or for an instance that is on no disk. It serves BMCs their
// firmware.
//
// Machines and BMCs have no password here. The files of one boot of one machine are under a path
// with a secret. The node stores the secret for as long as the boot needs it, see node.RamdiskBoot,
// so every engine of the database can serve the files. The script for a MAC address says no more
// than that path. A machine that has nothing to boot gets the same answer as an unknown machine.
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

// database is what the service reads nodes from.
type database interface {
	Read(ctx context.Context, fn func(*store.Tx) error) error
}

// images returns the images that nodes boot from.
type images interface {
	GetVersion(ctx context.Context, url, version string) (*imagecache.Image, error)
}

// Options say what is served.
type Options struct {
	// ScriptURL begins all URLs in scripts, such as http://192.0.2.1:6386.
	ScriptURL string
	// NetworkOnly serves the files that machines boot over the network, but no virtual media,
	// because these contain tokens. It is for a listener without TLS beside one with TLS.
	NetworkOnly bool
	Database    database
	Images      images
	Logger      *slog.Logger
}

// Limits of requests to the database.
const (
	lookupSlots = 16              // at once
	maxWaiting  = 1024            // requests that wait for a slot
	maxWait     = 5 * time.Second // longest wait
)

// failuresASecond and failuresAtOnce limit the log lines about images that cannot be served, per
// second and in a burst.
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

// errNothing means that nothing is served under the path.
var errNothing = errors.New("nothing is served here")

// errBusy means that too many other requests wait.
var errBusy = errors.New("too many requests wait")

// refuse answers an error without telling its reason.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	if errors.Is(err, errNothing) {
		status = http.StatusNotFound
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status)
}

// first answers the request for the script that DHCP hands out.
func (s *service) first(w http.ResponseWriter, _ *http.Request) { writeScript(w, firstScript(s.url)) }

// byMAC answers the request for the script of the machine with a MAC address.
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

// file answers the request for a file of one boot.
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

// firmware answers the request for the firmware that a BMC installs.
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

// firmwareOf returns the firmware file that is served to the BMC of a node. serves is false if
// there is none, or no node.
func firmwareOf(n *node.Node) (file node.FirmwareFile, serves bool) {
	if n == nil {
		return file, false
	}
	return node.FirmwareFileOf(n)
}

// files are the files of a boot, by the last part of their path. If a function returns an error it
// has written nothing yet.
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

// script answers the request for the script that boots the ramdisk.
func (s *service) script(w http.ResponseWriter, _ *http.Request, n *node.Node, boot node.RamdiskBoot) error {
	if !hasScript(boot) {
		return errNothing
	}
	writeScript(w, bootScript(s.url, n.UUID, boot))
	return nil
}

// hasScript reports whether the machine boots with a script of iPXE, not from a virtual medium.
func hasScript(boot node.RamdiskBoot) bool {
	return !boot.ServesMedium() && (boot.Kernel != "" && boot.Ramdisk != "" || boot.ISO != "")
}

// bootOf returns the boot that is served for a node. serves is false if there is none, or no node.
func bootOf(n *node.Node) (boot node.RamdiskBoot, serves bool) {
	if n == nil {
		return boot, false
	}
	return node.RamdiskBootOf(n)
}

// ask reads a node from the database when it is the caller's turn. It returns nil if there is no
// such node.
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
