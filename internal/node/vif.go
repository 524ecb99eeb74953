package node

import "slices"

// VIFRequest is a request to attach a virtual interface of a network service to a node.
type VIFRequest struct {
	ID            string // identifier in the network service; any text
	PortUUID      string // where to attach it; "" lets the engine choose
	PortgroupUUID string // excludes PortUUID
}

// vifKey is the key of internal_info for the VIF that is attached to a port or port group.
const vifKey = "tenant_vif_port_id"

// VIFOf returns the VIF in the internal_info of a port or a port group, "" when
// there is none.
func VIFOf(internalInfo Object) string { return internalInfo.Text(vifKey) }

// WithVIF returns the internal_info with a VIF in it.
func WithVIF(internalInfo Object, id string) Object {
	return internalInfo.With(map[string]any{vifKey: id})
}

// WithoutVIF returns the internal_info without a VIF.
func WithoutVIF(internalInfo Object) Object { return internalInfo.Without(vifKey) }

// VIFSlot is a place on a node that a VIF can be attached to: a port group, or a
// port that works by itself. Exactly one is set.
type VIFSlot struct {
	Portgroup *Portgroup
	Port      *Port
}

func (s VIFSlot) vif() string {
	if s.Portgroup != nil {
		return VIFOf(s.Portgroup.InternalInfo)
	}
	return VIFOf(s.Port.InternalInfo)
}

// AttachedVIFs lists the VIFs of a node.
func AttachedVIFs(groups []*Portgroup, ports []*Port) []string {
	ids := []string{}
	for _, slot := range vifSlots(groups, ports) {
		if id := slot.vif(); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// FindVIF returns where a VIF is attached.
func FindVIF(id string, groups []*Portgroup, ports []*Port) (VIFSlot, bool) {
	for _, slot := range vifSlots(groups, ports) {
		if slot.vif() == id {
			return slot, true
		}
	}
	return VIFSlot{}, false
}

// ChooseVIFSlot returns where to attach a VIF; port groups come before ports. A group is suitable
// if it has ports and none of them has a VIF. A port is suitable if it may boot from the network.
// If the port is in a group, the group must also support standalone ports and have no VIF itself,
// so that no interface of the machine gets two VIFs.
func ChooseVIFSlot(request VIFRequest, groups []*Portgroup, ports []*Port) (VIFSlot, error) {
	if _, taken := FindVIF(request.ID, groups, ports); taken {
		return VIFSlot{}, Conflict("VIF %s is attached already.", request.ID)
	}
	for _, slot := range vifSlots(groups, ports) {
		if slot.vif() == "" && slot.wanted(request) && slot.usable(groups, ports) {
			return slot, nil
		}
	}
	return VIFSlot{}, Invalid("There is no free port for VIF %s: detach another one, or enable network boot on a port.", request.ID)
}

func (s VIFSlot) wanted(request VIFRequest) bool {
	switch {
	case request.PortUUID != "":
		return s.Port != nil && s.Port.UUID == request.PortUUID
	case request.PortgroupUUID != "":
		return s.Portgroup != nil && s.Portgroup.UUID == request.PortgroupUUID
	}
	return true
}

func (s VIFSlot) usable(groups []*Portgroup, ports []*Port) bool {
	if s.Portgroup != nil {
		members := slices.DeleteFunc(slices.Clone(ports), func(p *Port) bool { return p.PortgroupUUID != s.Portgroup.UUID })
		return len(members) > 0 && !slices.ContainsFunc(members, func(p *Port) bool { return VIFOf(p.InternalInfo) != "" })
	}
	i := slices.IndexFunc(groups, func(g *Portgroup) bool { return g.UUID == s.Port.PortgroupUUID })
	return s.Port.PXEEnabled && (i < 0 || groups[i].StandalonePortsSupported && VIFOf(groups[i].InternalInfo) == "")
}

func vifSlots(groups []*Portgroup, ports []*Port) []VIFSlot {
	slots := make([]VIFSlot, 0, len(groups)+len(ports))
	for _, g := range groups {
		slots = append(slots, VIFSlot{Portgroup: g})
	}
	for _, p := range ports {
		slots = append(slots, VIFSlot{Port: p})
	}
	return slots
}
