package demo

import (
	"strings"
	"time"
)

// behaviour is how a machine differs from a machine that works.
type behaviour struct {
	unknown           bool            // the engine never knows it
	registered        bool            // the engine knows it only when a node is created for it
	noInventory       bool            // nobody inspected it
	silence           time.Duration   // time since the last heartbeat of its ramdisk
	noSoftPower       bool            // it has no soft power actions
	accepts           bool            // requests for its virtual drive are accepted before they fail
	entersMaintenance bool            // when its cleaning has failed
	endless           map[Verb]bool   // work that never ends
	refuses           map[Verb]string // requests that the engine refuses, and its reason
	fails             map[Verb]string // work that fails, and the engine's reason
}

// behaviours maps prefixes of host names to behaviours. The longest prefix counts.
var behaviours = map[string]behaviour{
	"demo-unmanaged":    {unknown: true},
	"demo-importing":    {noInventory: true},
	"demo-disconnected": {silence: 24 * time.Hour},

	"demo-registering":            {registered: true, endless: only(VerbManage)},
	"demo-registration-error":     {registered: true, fails: reason("demo: the BMC refuses the credentials", VerbManage)},
	"demo-validation-error":       {registered: true, refuses: reason("demo: the image cannot be deployed to this machine", VerbDeploy)},
	"demo-inspecting":             {registered: true, endless: only(VerbInspect)},
	"demo-inspection-error":       {registered: true, fails: reason("demo: the ramdisk did not start", VerbInspect)},
	"demo-preparing":              {endless: only(VerbProvide, VerbClean)},
	"demo-preparation-error":      {fails: reason("demo: the disk cannot be wiped", VerbProvide, VerbClean)},
	"demo-preparation-fault":      {entersMaintenance: true, fails: reason("demo: the disk cannot be wiped", VerbProvide, VerbClean)},
	"demo-available":              {registered: true},
	"demo-provisioning":           {registered: true, endless: only(VerbDeploy)},
	"demo-provisioning-error":     {registered: true, fails: reason("demo: the image cannot be read", VerbDeploy)},
	"demo-provisioned":            {registered: true},
	"demo-externally-provisioned": {registered: true},
	"demo-adoption-error":         {registered: true, fails: reason("demo: the deployment is not known", VerbAdopt)},
	"demo-deprovisioning":         {registered: true, endless: only(VerbUndeploy)},
	"demo-deprovisioning-error":   {registered: true, fails: reason("demo: the machine does not switch off", VerbUndeploy)},
	"demo-power-error":            {registered: true, fails: reason("demo: the power does not change", VerbPower)},
	"demo-no-soft-power":          {registered: true, noSoftPower: true},
	"demo-servicing":              {registered: true, endless: only(VerbService)},
	"demo-service-error":          {registered: true, fails: reason("demo: the firmware does not fit", VerbService)},
	"demo-media-error":            {registered: true, fails: reason("demo: the virtual drive takes no image", VerbAttach, VerbDetach)},
	"demo-media-fault":            {registered: true, accepts: true, fails: reason("demo: the virtual drive takes no image", VerbAttach)},
	"demo-delete-error":           {fails: reason("demo: the node is set not to be deleted", VerbDelete)},
}

func only(verbs ...Verb) map[Verb]bool {
	set := map[Verb]bool{}
	for _, v := range verbs {
		set[v] = true
	}
	return set
}

func reason(text string, verbs ...Verb) map[Verb]string {
	set := map[Verb]string{}
	for _, v := range verbs {
		set[v] = text
	}
	return set
}

func behaviourOf(host string) behaviour {
	longest := ""
	for prefix := range behaviours {
		if strings.HasPrefix(host, prefix) && len(prefix) > len(longest) {
			longest = prefix
		}
	}
	return behaviours[longest]
}
