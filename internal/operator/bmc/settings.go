package bmc

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The protocols that BMCs speak.
var (
	ipmiFamily = &family{
		name: "ipmi", verifyKey: "ipmi_verify_ca",
		ports: map[string]uint16{"": ipmiPort}, settings: ipmiSettings,
	}
	redfishFamily = &family{
		name: "redfish", verifyKey: "redfish_verify_ca", transport: "https",
		ports: map[string]uint16{"http": 80, "https": 443}, settings: redfishSettings,
	}
)

// privilegeKey is a key in the query of IPMI addresses. privileges are its values, the privilege
// levels of sessions (IPMI 2.0, section 6.8).
const privilegeKey = "privilegelevel"

var privileges = []string{"ADMINISTRATOR", "OPERATOR", "USER", "CALLBACK"}

func ipmiSettings(u *url.URL, _ string) (map[string]any, error) {
	level := privileges[0]
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("the part after ? is not of the form key=value; the key is %s", privilegeKey)
	}
	if query.Has(privilegeKey) {
		level = strings.ToUpper(query.Get(privilegeKey))
	}
	if !slices.Contains(privileges, level) {
		return nil, fmt.Errorf("%s is not one of %s", privilegeKey, strings.Join(privileges, ", "))
	}
	port := u.Port()
	if port == "" {
		port = strconv.Itoa(ipmiPort)
	}
	return map[string]any{"ipmi_address": u.Hostname(), "ipmi_port": port, "ipmi_priv_level": level}, nil
}

func redfishSettings(u *url.URL, transport string) (map[string]any, error) {
	settings := map[string]any{"redfish_address": transport + "://" + strings.TrimSuffix(u.Host, ":")}
	system, err := systemOf(u)
	if err != nil {
		return nil, err
	}
	if system != "" {
		settings["redfish_system_id"] = u.Path
	}
	return settings, nil
}

// systemOf returns the path of the system without a slash at the end. It returns "" if the engine
// is to take the only system that the BMC has.
func systemOf(u *url.URL) (string, error) {
	if strings.Contains(u.Path, "..") || strings.ContainsAny(u.Path, "?#") {
		return "", errors.New("the path is not that of a system, such as /redfish/v1/Systems/1")
	}
	path := strings.Trim(u.Path, "/")
	if path == "" || path == "redfish/v1" {
		return "", nil
	}
	return "/" + path, nil
}
