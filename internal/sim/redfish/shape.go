package redfish

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// shape is how a vendor's Redfish service differs from those of others.
type shape struct {
	profile *bmc.Profile
	product string // of the service root
	vendor  string // of the service root
	oem     string // key of the vendor's own properties
	version string // of Redfish

	slash    bool // IDs of resources end with a slash
	absolute bool // Location headers are absolute
	silent   bool // successful changes are answered with 204 and no body

	// IDs of the only system, manager and chassis.
	system, manager, chassis string
	// bios is the name of the BIOS resource below the system. settings is the name of the resource
	// with the pending attributes, below the BIOS resource.
	bios, settings string
	// applyTimes are the times that changes of BIOS attributes can ask for.
	applyTimes []string
	// attributeRegistry is the ID of the registry of BIOS attributes. registryFile is the path of
	// the file with the registry, below the service root.
	attributeRegistry, registryFile string
	zipped                          bool // the registry file is sent compressed

	// base and registry are the prefixes of the IDs of messages, those of DMTF and those of the
	// vendor.
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

	targets    []bmc.Target // in the order in which they are listed
	wholeBoot  bool         // requests must change all three boot settings
	httpBoot   bool         // boot settings have the URL of UEFI HTTP boot
	needsTag   bool         // requests to change boot settings need a header If-Match
	plainMedia bool         // media are inserted write-protected and at once, and requests must not say so
	// media are the lists of slots.
	media []mediaList

	processorID, driveID string // formats for the number
	storageID            string
	controller           string                         // model of the RAID controller
	volumeID             string                         // format for the number
	volumeOffset         int                            // what is subtracted from the numbers of volumes
	adapterID            string                         // format for the adapter's number
	portID               func(adapter, port int) string // numbers from 1
	// inventory returns the ID and the name of a component in the firmware inventory.
	inventory func(c bmc.Component) (id, name string)

	taskID     func(number int64) string
	taskStates map[bmc.TaskState]string
	failures   map[bmc.Failure]string // message of a failed task
	// extendTask adds the vendor's own properties to the document of a task.
	extendTask func(s *Service, t bmc.Task, document object)
	// updated answers a request for an update. configured answers a change of the BIOS.
	updated    func(s *Service, t *bmc.Task) answer
	configured func(s *Service, job *bmc.Task) answer
	// volumeMade answers a request for a volume; made is nil unless the volume already exists.
	// volumeDeleted answers a request to delete a volume.
	volumeMade    func(s *Service, made *bmc.Volume, t *bmc.Task) answer
	volumeDeleted func(s *Service, t *bmc.Task) answer
	// extend has functions that add the vendor's own properties to documents, by the type of the
	// document.
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

// id returns the ID of a resource, which is its path with the service root.
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

// locate returns the value of a Location header.
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

// document completes a resource with the properties that all resources have.
func (s *shape) document(path, kind string, body object) object {
	name, _, _ := strings.Cut(kind, ".")
	body["@odata.id"] = s.id(path)
	body["@odata.type"] = "#" + kind
	body["@odata.context"] = root + "/$metadata#" + name + "." + name
	return body
}

// collection returns a collection of resources.
func (s *shape) collection(path, kind, name string, members []string) object {
	return s.document(path, kind, object{
		"Name": name, "Members": s.links(members...), "Members@odata.count": len(members),
	})
}

// done returns the answer to a successful change.
func (s *shape) done() answer {
	if s.silent {
		return answer{status: http.StatusNoContent}
	}
	return s.said("Success")
}

// said returns the answer to a successful change, with a message.
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

// numbered returns an ID from a format with one %d.
func numbered(format string, n int) string {
	return strings.Replace(format, "%d", strconv.Itoa(n), 1)
}
