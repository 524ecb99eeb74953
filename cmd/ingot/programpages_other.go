//go:build !linux

package main

// releaseProgram does nothing, because no request to unmap pages is known here.
func releaseProgram() error { return nil }
