// Package fencing recovers Machines that have the annotation
// host.metal3.io/external-remediation: it powers the host off, deletes the Node when the host is
// proven to be off, and powers the host on again.
//
// All state is in the objects: each pass reads them and makes at most one write, so that a pass
// which is lost, or made twice, changes nothing. A Node is never deleted without the proof that
// the machine which it stands for is off (ProvenOff).
package fencing
