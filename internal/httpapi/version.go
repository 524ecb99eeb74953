package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// The range of microversions 1.N that this engine supports. Clients rely on a version being
// implemented with everything up to it, so maxVersion may not be higher than that. Inspection rules
// (1.96) are the exception: clients look for them in GET /v1, which does not list them.
const (
	minVersion = 1
	maxVersion = 110
)

// Header names of version negotiation. Most clients send versionHeader, the older of
// the two request headers.
const (
	standardVersionHeader = "Openstack-Api-Version"
	versionHeader         = "X-Openstack-Ironic-Api-Version"
	minVersionHeader      = "X-Openstack-Ironic-Api-Minimum-Version"
	maxVersionHeader      = "X-Openstack-Ironic-Api-Maximum-Version"
)

// versionText has the texts of all versions, so that answers need not format them.
var versionText = func() (texts [maxVersion + 1]string) {
	for n := range texts {
		texts[n] = "1." + strconv.Itoa(n)
	}
	return texts
}()

// negotiate returns the microversion 1.N of the request: the minimum without a version
// header. Its error is a 406.
func negotiate(h http.Header) (int, error) {
	asked, ok := standardVersion(h[standardVersionHeader])
	if !ok {
		asked = strings.TrimSpace(h.Get(versionHeader))
	}
	switch asked {
	case "":
		return minVersion, nil
	case "latest":
		return maxVersion, nil
	}
	minor, err := parseVersion(asked)
	if err != nil {
		return 0, routerError(http.StatusNotAcceptable, "Invalid value for the API version header: %q. Use the form 1.N or latest.", asked)
	}
	if minor < minVersion || minor > maxVersion {
		return 0, routerError(http.StatusNotAcceptable,
			"Version %s was requested but is not supported. The supported version range is: [%s, %s].",
			asked, versionText[minVersion], versionText[maxVersion])
	}
	return minor, nil
}

// standardVersion returns the version for this service in OpenStack-API-Version
// headers. Their values are comma lists of "service version".
func standardVersion(values []string) (string, bool) {
	for _, value := range values {
		for entry := range strings.SplitSeq(value, ",") {
			service, version, ok := strings.Cut(strings.TrimSpace(entry), " ")
			if ok && strings.EqualFold(service, "baremetal") {
				return strings.TrimSpace(version), true
			}
		}
	}
	return "", false
}

// parseVersion reads "1.N". A major version other than 1 is an error.
func parseVersion(text string) (int, error) {
	major, minor, ok := strings.Cut(text, ".")
	if !ok || major != "1" || strings.ContainsAny(minor, "+-") {
		return 0, fmt.Errorf("parse version %q: want 1.N", text)
	}
	n, err := strconv.Atoi(minor)
	if err != nil {
		return 0, fmt.Errorf("parse version %q: %w", text, err)
	}
	return n, nil
}
