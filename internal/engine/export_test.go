package engine

// NetworkBootURL is where machines boot over the network, empty when the boot service is off.
func (e *Engine) NetworkBootURL() string {
	if e.boot.ipxe == nil {
		return e.BootURL()
	}
	return e.boot.ipxe.url(nil)
}
