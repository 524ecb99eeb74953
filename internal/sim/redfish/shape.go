package redfish

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// shape is how a vendor's Redfish service differs from others.
type shape struct {
	profile *bmc.Profile
	product string // of the service root
	vendor  string // of the service root
	oem     string // key of the vendor's own properties
	version string // of Redfish

	slash    bool // identities of resources end with a slash
	absolute bool // Location headers are absolute
	silent   bool // changes that succeed are answered with 204 and no body

	// Identities of the only system, manager and chassis.
	system, manager, chassis string
	// bios is the name of the BIOS resource below the system, settings that of the pending
	// one below it.
	bios, settings string
	// applyTimes are those that changes of BIOS attributes can ask for.
	applyTimes []string
	// attributeRegistry is the identity of the registry of BIOS attributes, registryFile
	// the path of its text below the service root.
	attributeRegistry, registryFile string
	zipped                          bool // that text is sent compressed

	// base and registry begin the identities of messages of DMTF and of the vendor.
	base, registry string
	messages       map[string]message // the vendor's own
	severity       string             // property with the severity of a message
	terse          bool               // messages have no text
	counts         bool               // arrays have a count
	errorCode      string
	errorText      string

	problems        map[bmc.Reason]problem
	unauthorized    string // message of 401
	tooManySessions problem

	targets    []bmc.Target // in the order that they are listed in
	wholeBoot  bool         // boot settings are changed all three at once
	httpBoot   bool         // boot settings have the URL of UEFI HTTP boot
	needsTag   bool         // boot settings are changed only with a header If-Match
	plainMedia bool         // media are inserted write-protected and at once, which requests must not say
	// media are the lists of slots.
	media []mediaList

	processorID, driveID string // formats, of the number
	storageID            string
	controller           string                         // model of the RAID controller
	volumeID             string                         // format, of the number
	volumeOffset         int                            // that is subtracted from the numbers of volumes
	adapterID            string                         // format, of the adapter's number
	portID               func(adapter, port int) string // numbers from 1
	// inventory returns identity and name of a component in the list of firmware.
	inventory func(c bmc.Component) (id, name string)

	taskID     func(number int64) string
	taskStates map[bmc.TaskState]string
	failures   map[bmc.Failure]string // message of a task that failed
	// extendTask adds the vendor's own to the document of a task.
	extendTask func(s *Service, t bmc.Task, document object)
	// updated answers a request for an update, configured one for changes of the BIOS.
	updated    func(s *Service, t *bmc.Task) answer
	configured func(s *Service, job *bmc.Task) answer
	// volumeMade answers a request for a volume, which is nil unless it is there, and
	// volumeDeleted one for its end.
	volumeMade    func(s *Service, made *bmc.Volume, t *bmc.Task) answer
	volumeDeleted func(s *Service, t *bmc.Task) answer
	// extend adds the vendor's own to a document, by the type of that.
	extend map[string]func(s *Service, document object)
	more   []route // the vendor's own

	served *served
}

// mediaList is one collection of slots.
type mediaList struct {
	owner string   // path below the service root
	ids   []string // of the slots, in the order of the profile
}

const root = "/redfish/v1"

// id is the identity of a resource from its path below the service root.
func (s *shape) id(path string) string {
	if s.slash {
		return root + path + "/"
	}
	return root + path
}

func (s *shape) link(path string) object { return object{"@odata.id": s.id(path)} }

func (s *shape) links(paths ...string) []object {
	out := make([]object, len(paths))
	for i, path := range paths {
		out[i] = s.link(path)
	}
	return out
}

// locate makes the value of a Location header.
func (s *shape) locate(r *http.Request, id string) string {
	if !s.absolute {
		return id
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + id
}

// document completes a resource.
func (s *shape) document(path, kind string, body object) object {
	name, _, _ := strings.Cut(kind, ".")
	body["@odata.id"] = s.id(path)
	body["@odata.type"] = "#" + kind
	body["@odata.context"] = root + "/$metadata#" + name + "." + name
	return body
}

// collection makes a collection of resources.
func (s *shape) collection(path, kind, name string, members []string) object {
	return s.document(path, kind, object{
		"Name": name, "Members": s.links(members...), "Members@odata.count": len(members),
	})
}

// done answers a change that succeeded.
func (s *shape) done() answer {
	if s.silent {
		return answer{status: http.StatusNoContent}
	}
	return s.said("Success")
}

// said answers a change that succeeded with a message.
func (s *shape) said(message string) answer {
	return answer{body: s.extended(s.render(message, "", ""))}
}

// Paths below the service root.
func (s *shape) systemPath() string  { return "/Systems/" + s.system }
func (s *shape) managerPath() string { return "/Managers/" + s.manager }
func (s *shape) chassisPath() string { return "/Chassis/" + s.chassis }
func (s *shape) biosPath() string    { return s.systemPath() + "/" + s.bios }

func (s *shape) taskPath(number int64) string { return "/TaskService/Tasks/" + s.taskID(number) }

func (s *shape) monitorPath(number int64) string {
	return "/TaskService/TaskMonitors/" + s.taskID(number)
}

// ok is the status of a healthy resource.
func ok() object { return object{"State": "Enabled", "Health": "OK"} }

// numbered makes identities from a format with one %d.
func numbered(format string, n int) string {
	return strings.Replace(format, "%d", strconv.Itoa(n), 1)
}
