//go:build compat

package compat_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

// mediumImage is in the virtual CD.
const mediumImage = "http://192.0.2.1/images/ramdisk.iso"

// sushyVendor is what sushy gets from the BMC of a vendor. In results and effects, MODE is the boot
// mode of the machine, and OTHER is the other boot mode.
type sushyVendor struct {
	attribute, value string // a BIOS attribute, and what it is changed to
	// results of steps that only this vendor has, or that differ from sushyResults.
	results map[string]string
	// The effects of three groups of steps.
	boots, resets, media []string
}

// sushyResults are the results of steps with every vendor, as JSON.
var sushyResults = map[string]string{
	"log in with SessionAuth":                             `["session","Off"]`,
	"log in with SessionAuth and a wrong password":        `"AccessError 401"`,
	"log in with BasicAuth":                               `["basic","Off"]`,
	"log in with BasicAuth and a wrong password":          `"AccessError 401"`,
	"log in with SessionOrBasicAuth":                      `["session","Off"]`,
	"log in with SessionOrBasicAuth and a wrong password": `"AccessError 401"`,
	"read after the end of the session":                   `["Off",true]`,
	"trust an unknown authority":                          `"ConnectionError"`,
	"service":                                             `[true,1800,1]`,
	"links":                                               `[true,true,true,true]`,
	"boot Pxe Once":                                       `["Pxe","Once","MODE"]`,
	"boot Hdd Once":                                       `["Hdd","Once","MODE"]`,
	"boot Cd Once":                                        `["Cd","Once","MODE"]`,
	"boot Pxe Continuous":                                 `["Pxe","Continuous","MODE"]`,
	"boot Hdd Continuous":                                 `["Hdd","Continuous","MODE"]`,
	"boot Cd Continuous":                                  `["Cd","Continuous","MODE"]`,
	"boot Pxe without a mode":                             `["Pxe","Once","MODE"]`,
	"boot in the other mode":                              `["Pxe","Once","OTHER"]`,
	"boot in the mode of before":                          `["Pxe","Once","MODE"]`,
	"reset On":                                            `"On"`,
	"reset Nmi":                                           `"On"`,
	"reset ForceRestart":                                  `"On"`,
	"reset GracefulRestart":                               `"On"`,
	"reset PowerCycle":                                    `"On"`,
	"reset GracefulShutdown":                              `"Off"`,
	"reset PushPowerButton":                               `"On"`,
	"reset ForceOff":                                      `"Off"`,
	"reset Suspend":                                       `"InvalidParameterValueError"`,
	"secure boot":                                         `[false,"Disabled","UserMode"]`,
	"enable secure boot":                                  `"done"`,
	"secure boot before a boot":                           `[true,"Disabled","UserMode"]`,
	"secure boot after a boot":                            `[true,"Enabled","UserMode"]`,
	"reset keys DeleteAllKeys":                            `[true,"Enabled","SetupMode"]`,
	"reset keys ResetAllKeysToDefault":                    `[true,"Enabled","UserMode"]`,
	"disable secure boot":                                 `"done"`,
	"secure boot after another boot":                      `[false,"Disabled","UserMode"]`,
	"BIOS registry":                                       `["Enumeration",["Enabled","Disabled"],false,8]`,
	"BIOS apply times":                                    `["OnReset"]`,
	"BIOS status":                                         `4`, // no updates
	"change an unknown BIOS attribute":                    `"BadRequestError 400"`,
	"change the BIOS":                                     `"done"`,
	"reset the BIOS":                                      `"done"`,
	"insert at the manager":                               `[true,"` + mediumImage + `","ramdisk.iso","URI",true]`,
	"insert at the manager again":                         `"BadRequestError 400"`,
	"eject at the manager":                                `[false,null,null,"NotConnected",null]`,
	"protocols of updates":                                `["HTTP","HTTPS"]`,
	"task before a boot":                                  `["Pending","OK",true,true]`,
	"task after a boot":                                   `["Completed","OK",false,true]`,
	"firmware":                                            `["` + firmwareVersion + `",true]`,
}

var sushyVendors = map[string]sushyVendor{
	"dell": {
		attribute: "SriovGlobalEnable", value: "Enabled",
		results: map[string]string{
			"manager":                         `["BMC","7.00.60.00"]`,
			"resets":                          `["ForceOff","ForceRestart","GracefulRestart","GracefulShutdown","Nmi","On","PowerCycle","PushPowerButton"]`,
			"reset On again":                  `"HTTPError 409"`,
			"reset ForceOff again":            `"HTTPError 409"`,
			"secure boot before a boot":       `[false,"Disabled","UserMode"]`, // a job has to enable it
			"insert at the manager again":     `"ServerSideError 500"`,
			"eject at the manager again":      `"done"`, // sushy hides status 500
			"insert at the system":            `[true,"` + mediumImage + `","ramdisk.iso","URI",true]`,
			"insert at the system again":      `"ServerSideError 500"`,
			"eject at the system":             `[false,null,null,"NotConnected",null]`,
			"eject at the system again":       `"done"`,
			"update":                          `"Starting"`,
			"task before a boot":              `["Starting","OK",true,true]`,
			"update from nowhere":             `false`,
			"task of the update from nowhere": `["Exception","Critical",[["IDRAC.2.8.RED016","The update package could not be fetched."]]]`,
		},
		boots: []string{
			"boot device: Pxe Once MODE", "boot device: Hdd Once MODE", "boot device: Cd Once MODE",
			"boot device: Pxe Continuous MODE", "boot device: Hdd Continuous MODE", "boot device: Cd Continuous MODE",
			"boot device: Pxe Once", "boot device: Pxe Once OTHER", "boot device: Pxe Once MODE",
		},
		resets: []string{
			"power on: On", "nmi: Nmi", "reboot: ForceRestart", "soft reboot: GracefulRestart", "power cycle: PowerCycle",
			"soft power off: GracefulShutdown", "power button: PushPowerButton", "power off: ForceOff",
		},
		media: []string{
			"attach medium: CD " + mediumImage, "detach media: CD",
			"attach medium: CD " + mediumImage, "detach media: CD",
		},
	},
	"hpe": {
		attribute: "Sriov", value: "Disabled",
		results: map[string]string{
			"manager":                         `["BMC","iLO 5 v2.95"]`,
			"boot Cd Continuous":              `"BadRequestError 400"`,
			"boot in the other mode":          `"BadRequestError 400"`,
			"resets":                          `["ForceOff","ForceRestart","GracefulRestart","GracefulShutdown","Nmi","On","PushPowerButton"]`,
			"reset PowerCycle":                `"InvalidParameterValueError"`,
			"reset On again":                  `"BadRequestError 400"`,
			"reset ForceOff again":            `"BadRequestError 400"`,
			"BIOS apply times":                `"done"`, // there are none
			"eject at the manager again":      `"BadRequestError 400"`,
			"update":                          `"MissingHeaderError"`, // it has begun; the monitor is missing
			"update from nowhere":             `"MissingHeaderError"`,
			"task of the update from nowhere": `["Exception","Critical",[["iLO.2.14.UpdateImageNotFound","unknown"]]]`,
		},
		boots: []string{
			"boot device: Pxe Once MODE", "boot device: Hdd Once MODE", "boot device: Cd Once MODE",
			"boot device: Pxe Continuous MODE", "boot device: Hdd Continuous MODE",
			"boot device: Pxe Once", "boot device: Pxe Once MODE",
		},
		resets: []string{
			"power on: On", "nmi: Nmi", "reboot: ForceRestart", "soft reboot: GracefulRestart",
			"soft power off: GracefulShutdown", "power button: PushPowerButton", "power off: ForceOff",
		},
		media: []string{"attach medium: 2 " + mediumImage, "detach media: 2"},
	},
	"supermicro": {
		attribute: "SR_IOVSupport", value: "Disabled",
		results: map[string]string{
			"manager":                             `["BMC","01.01.45"]`,
			"boot Cd Once":                        `["UsbCd","Once","MODE"]`, // sushy replaces it
			"boot Cd Continuous":                  `["UsbCd","Continuous","MODE"]`,
			"boot Pxe without a mode":             `"BadRequestError 400"`,
			"resets":                              `["ForceOff","ForceRestart","GracefulRestart","GracefulShutdown","Nmi","On","PowerCycle"]`,
			"reset PushPowerButton":               `"InvalidParameterValueError"`,
			"reset On for want of a power button": `"On"`,
			"reset On again":                      `"On"`,
			"reset ForceOff again":                `"Off"`,
			"eject at the manager again":          `"done"`,
			"update":                              `"MissingAttributeError"`, // it has begun; sushy wants a task
			"update from nowhere":                 `"MissingAttributeError"`,
			"task of the update from nowhere":     `["Exception","Critical",[["SMC.1.0.OemFetchFailed","The firmware file could not be fetched."]]]`,
		},
		boots: []string{
			"boot device: Pxe Once MODE", "boot device: Hdd Once MODE", "boot device: UsbCd Once MODE",
			"boot device: Pxe Continuous MODE", "boot device: Hdd Continuous MODE", "boot device: UsbCd Continuous MODE",
			"boot device: Pxe Once OTHER", "boot device: Pxe Once MODE",
		},
		resets: []string{
			"power on: On", "nmi: Nmi", "reboot: ForceRestart", "soft reboot: GracefulRestart", "power cycle: PowerCycle",
			"soft power off: GracefulShutdown", "power on: On", "power on: On", "power off: ForceOff", "power off: ForceOff",
		},
		media: []string{"attach medium: VirtualMedia1 " + mediumImage, "detach media: VirtualMedia1", "detach media: VirtualMedia1"},
	},
}

// modesOf replaces the names of boot modes by those of a machine.
func modesOf(machine hardware.Inventory) *strings.Replacer {
	if machine.Boot.CurrentBootMode == "bios" {
		return strings.NewReplacer("MODE", "Legacy", "OTHER", "UEFI")
	}
	return strings.NewReplacer("MODE", "UEFI", "OTHER", "Legacy")
}

// allResults are the results of all steps with a machine.
func (v sushyVendor) allResults(machine hardware.Inventory) map[string]string {
	all := maps.Clone(sushyResults)
	maps.Copy(all, hardwareResults(machine))
	other := map[string]string{"Enabled": "Disabled", "Disabled": "Enabled"}[v.value]
	maps.Copy(all, map[string]string{
		"BIOS":                 `["` + other + `",null]`,
		"BIOS before a boot":   `["` + other + `","` + v.value + `"]`,
		"BIOS after a boot":    `["` + v.value + `",null]`,
		"BIOS after its reset": `["` + other + `",null]`,
	})
	maps.Copy(all, v.results)
	modes := modesOf(machine)
	for step, result := range all {
		all[step] = modes.Replace(result)
	}
	return all
}

// hardwareResults are what sushy reads of the machine's hardware.
func hardwareResults(machine hardware.Inventory) map[string]string {
	serial, interfaces, largest := machine.SystemVendor.SerialNumber, map[string]any{}, int64(0)
	for _, i := range machine.Interfaces {
		interfaces[strings.ToUpper(i.MACAddress)] = "Enabled"
	}
	drives, adapters := []any{}, map[string]bool{}
	for _, d := range machine.Disks {
		drives, largest = append(drives, []any{d.Serial, d.Size, "Enabled"}), max(largest, d.Size)
	}
	for _, i := range machine.Interfaces {
		adapters[i.Vendor+i.Product] = true
	}
	results := map[string]string{}
	for step, result := range map[string]any{
		"system":        []any{machine.SystemVendor.Manufacturer, serial, machine.Memory.PhysicalMB / 1024, "OK"},
		"processors":    []any{machine.CPU.Count, "x86"},
		"interfaces":    interfaces,
		"drives":        drives,
		"largest drive": largest,
		"chassis":       []any{serial, "RackMount", "Off"},
		"adapters":      len(adapters),
	} {
		text, _ := json.Marshal(result) // numbers, texts, lists and objects of them only
		results[step] = string(text)
	}
	return results
}

// allEffects are the effects of all steps, in their order.
func (v sushyVendor) allEffects(machine hardware.Inventory, files string) []string {
	restart := []string{"power on: On", "power off: ForceOff"}
	all := slices.Concat(
		v.boots, v.resets,
		[]string{"secure boot: enable"}, restart,
		[]string{"reset secure boot keys: DeleteAllKeys", "reset secure boot keys: ResetAllKeysToDefault", "secure boot: disable"}, restart,
		[]string{"configure bios: " + v.attribute + "=" + v.value}, restart,
		[]string{"reset bios"}, restart,
		v.media,
		[]string{"flash: " + files + firmwarePath}, restart,
		[]string{"flash: " + files + missingPath},
	)
	modes := modesOf(machine)
	for i, e := range all {
		all[i] = modes.Replace(e)
	}
	return all
}
