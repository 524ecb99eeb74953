package agent

import (
	"fmt"
	"net/http"
)

// fault is an error answer of the command API. Faults of the engine's API are inside error_message;
// these are not.
type fault struct {
	status int
	Code   string `json:"faultcode"`
	String string `json:"faultstring"`
}

// newFault returns a fault whose faultcode follows from the status.
func newFault(status int, text string) *fault {
	code := "Client"
	if status >= http.StatusInternalServerError {
		code = "Server"
	}
	return &fault{status: status, Code: code, String: text}
}

// httpFault is a fault of the HTTP layer, whose text begins with the status.
func httpFault(status int, text string) *fault {
	return newFault(status, fmt.Sprintf("%d %s: %s", status, http.StatusText(status), text))
}

func tokenFault() *fault { return httpFault(http.StatusUnauthorized, "Token invalid.") }

func notFoundFault(kind, id string) *fault {
	return newFault(http.StatusNotFound, fmt.Sprintf("Not found: %s with id %s not found.", kind, id))
}

func invalidCommandFault(details string) *fault {
	return newFault(http.StatusBadRequest, "Invalid command: "+details)
}

func invalidParamsFault(details string) *fault {
	return newFault(http.StatusBadRequest, "Invalid command parameters: "+details)
}

func busyFault(running string) *fault {
	return newFault(http.StatusConflict, "Agent is busy: executing command "+running)
}

// commandError is the error of a command that failed.
type commandError struct {
	Type    string `json:"type"`
	Code    int    `json:"code"`
	Message string `json:"message"`
	Details string `json:"details"`
}

func executionError(details string) *commandError {
	return &commandError{"CommandExecutionError", http.StatusInternalServerError, "Command execution failed", details}
}

func methodNotFound(method string) *commandError {
	return &commandError{
		"HardwareManagerMethodNotFound", http.StatusInternalServerError,
		"No HardwareManager found to handle method", "Could not find method: " + method,
	}
}

func versionMismatch(current, wanted string) *commandError {
	return &commandError{
		"VersionMismatch", http.StatusConflict,
		"Hardware managers version mismatch, reload agent with correct version",
		fmt.Sprintf("Current versions: %s, versions used by ironic: %s", current, wanted),
	}
}

func downloadError(imageID, reason string) *commandError {
	return &commandError{
		"ImageDownloadError", http.StatusInternalServerError, "Error downloading image",
		fmt.Sprintf("Download of image %s failed: %s", imageID, reason),
	}
}

// checksumError has the location and the identifier swapped, like the error of the real agent.
func checksumError(imageID, wanted, got string) *commandError {
	return &commandError{
		"ImageChecksumError", http.StatusInternalServerError, "Error verifying image checksum",
		fmt.Sprintf("Image failed to verify against checksum. location: %s; image ID: /tmp/%s; image checksum: %s; verification checksum: %s",
			imageID, imageID, wanted, got),
	}
}

func writeError(device, stderr string) *commandError {
	return &commandError{
		"ImageWriteError", http.StatusInternalServerError, "Error writing image to device",
		fmt.Sprintf("Writing image to device %s failed with exit code 1. stdout: . stderr: %s", device, stderr),
	}
}

func deviceNotFound(details string) *commandError {
	return &commandError{
		"DeviceNotFound", http.StatusNotFound, "Error finding the disk or partition device to deploy the image onto", details,
	}
}

func invalidImage(details string) *commandError {
	return &commandError{"InvalidImage", http.StatusInternalServerError, "The provided image is not valid for use", details}
}

// plainError is an error of no special type.
func plainError(details string) *commandError {
	return &commandError{"RESTError", http.StatusInternalServerError, "An error occurred", details}
}

// stepErrors has the type and the message of errors of steps, by the extension.
var stepErrors = map[string][2]string{
	"clean":   {"CleaningError", "Clean step failed"},
	"deploy":  {"DeploymentError", "Deploy step failed"},
	"service": {"ServicingError", "Service step failed"},
}

func stepError(extension, details string) *commandError {
	e := stepErrors[extension]
	return &commandError{e[0], http.StatusInternalServerError, e[1], details}
}
