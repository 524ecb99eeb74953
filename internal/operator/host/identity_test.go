package host

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func TestMachinesAreComparedByWhatBothTell(t *testing.T) {
	t.Parallel()
	const uuid, swapped, otherUUID = "00112233-4455-6677-8899-aabbccddeeff", "33221100-5544-7766-8899-aabbccddeeff", "90112233-4455-6677-8899-aabbccddeeff"
	const shared, local, virtual = "b0:3a:f2:b6:05:9f", "02:00:5e:00:53:ff", "52:54:00:12:34:56"
	facts := func(uuid, serial string, macs ...string) node.MachineFacts {
		return node.MachineFacts{MachineIdentity: node.NewMachineIdentity(uuid, serial), MACAddresses: macs}
	}
	sku := facts("", "BOARD7")
	sku.SKU = "sn1"
	for name, tt := range map[string]struct {
		expected, told node.MachineFacts
		want           verdict
		says           []string
	}{
		"nothing":                        {facts("", ""), facts("", ""), verdictUnknown, nil},
		"nothing in common":              {facts(uuid, ""), facts("", "SN1", "m1"), verdictUnknown, nil},
		"placeholders":                   {facts("", "To Be Filled By O.E.M."), facts("", "Default string"), verdictUnknown, nil},
		"a placeholder and a number":     {facts("", "None"), facts("", "SN1"), verdictUnknown, nil},
		"zeroes":                         {facts("00000000-0000-0000-0000-000000000000", "0000000"), facts(uuid, "SN1"), verdictUnknown, nil},
		"everything":                     {facts(uuid, "SN1", "m1", "m2"), facts(uuid, "SN1", "m2", "m3"), verdictSame, nil},
		"UUID in the order of SMBIOS":    {facts(swapped, ""), facts(uuid, ""), verdictSame, nil},
		"serial number in another case":  {facts("", "sn1"), facts("", "SN1"), verdictSame, nil},
		"serial number as SKU":           {facts("", "SN1"), sku, verdictSame, nil},
		"only an address":                {facts("", "", "m1"), facts("", "", "m9", "m1"), verdictSame, nil},
		"BMC tells no addresses":         {facts("", "SN1", "m1"), facts("", "SN1"), verdictSame, nil},
		"other UUID":                     {facts(uuid, ""), facts(otherUUID, ""), verdictOther, []string{otherUUID, uuid}},
		"other serial number":            {facts("", "SN1"), facts("", "SN2"), verdictOther, []string{"serial number SN2, expected SN1"}},
		"no address in common":           {facts("", "", "m1", "m2"), facts("", "", "m3"), verdictOther, []string{"m3", "m1, m2"}},
		"same number, no common address": {facts("", "SN1", "m1"), facts("", "SN1", "m3"), verdictOther, []string{"m3"}},
		"only a shared address":          {facts("", "", shared), facts("", "", shared), verdictUnknown, nil},
		"shared beside others":           {facts("", "", "m1", shared, local), facts("", "", "m2", shared, local), verdictOther, []string{"MAC addresses m2, expected one of m1"}},
		"BMC tells only shared ones":     {facts("", "SN1", "m1"), facts("", "SN1", shared, local), verdictSame, nil},
		"found only shared ones":         {facts("", "", shared, local), facts("", "", "m1"), verdictUnknown, nil},
		"no address of an interface":     {facts("", "", "m1"), facts("", "", "00:00:00:00:00:00"), verdictUnknown, nil},
		"virtual machine":                {facts("", "", local, virtual), facts("", "", virtual), verdictSame, nil},
		"other virtual machine":          {facts("", "", virtual, shared), facts("", "", local, shared), verdictOther, []string{local, virtual}},
		"same UUID, all else differs":    {facts(uuid, "SN1", "m1"), facts(swapped, "SN2", "m3"), verdictOther, []string{"SN2", "m3"}},
		"same UUID, number of a board":   {facts(uuid, "SN1", "m1"), facts(swapped, "BOARD7"), verdictSame, nil},
		"the same, a common address":     {facts(uuid, "SN1", "m1"), facts(swapped, "BOARD7", "m1"), verdictSame, nil},
		"number of a board":              {facts("", "SN1", "m1"), facts(uuid, "BOARD7", "m1", "m3"), verdictSame, nil},
		"other UUID, a common address":   {facts(uuid, "SN1", "m1"), facts(otherUUID, "SN2", "m1"), verdictOther, []string{otherUUID, "SN2"}},
		"virtual machines with numbers":  {facts("", "SN1", virtual), facts("", "SN2", virtual), verdictOther, []string{"SN2"}},
		"all differ":                     {facts(uuid, "SN1", "m1"), facts(otherUUID, "SN2", "m2"), verdictOther, []string{otherUUID, "SN2", "m2"}},
	} {
		v, says := decideIdentity(tt.expected, tt.told)
		if v != tt.want || (says == "") != (tt.says == nil) {
			t.Errorf("%s: verdict %d, %q; want %d", name, v, says, tt.want)
		}
		for _, part := range tt.says {
			if !strings.Contains(says, part) {
				t.Errorf("%s: %q does not tell %q", name, says, part)
			}
		}
	}
}

// oneMachine is an engine that has an inventory of the machine behind its BMC.
type oneMachine struct {
	engine

	inventory *provisioner.Inventory
	told      node.MachineFacts
}

func (e oneMachine) Inventory(context.Context, string) (*provisioner.Inventory, error) {
	return e.inventory, nil
}

func (e oneMachine) Identify(context.Context, bmc.Access, bmc.Credentials) (node.MachineFacts, error) {
	return e.told, nil
}

func TestUUIDInTheInventoryDecidesWhatTheHostShows(t *testing.T) {
	t.Parallel()
	const uuid = "00112233-4455-6677-8899-aabbccddeeff"
	for serial, want := range map[string]metav1.ConditionStatus{"SN1": metav1.ConditionTrue, "SN2": metav1.ConditionFalse} {
		inv := &provisioner.Inventory{Hardware: inventory.Inventory{SystemVendor: inventory.SystemVendor{UUID: uuid, SerialNumber: "SN1"}}}
		told := node.MachineFacts{MachineIdentity: node.NewMachineIdentity(uuid, "BOARD7")}
		p := identity{engine: oneMachine{inventory: inv, told: told}, turns: &turns{taken: map[string]int{}}, answers: &answers{}}
		s := newScope(testHost(func(h *v1alpha1.BareMetalHost) {
			h.Status.HardwareDetails = &v1alpha1.HardwareDetails{SystemVendor: v1alpha1.HardwareSystemVendor{SerialNumber: serial}}
		}), testNow, 0)
		err := p.check(t.Context(), s, provisioner.Node{}, provisioner.Registration{Access: &bmc.Access{}})
		if s.identity == nil || s.identity.Status != want || (err == nil) != (want == metav1.ConditionTrue) {
			t.Errorf("host with the serial number %s: %v, condition %+v; want %s", serial, err, s.identity, want)
		}
	}
}

// slowBMCs is an engine whose BMCs answer only when the test lets them.
type slowBMCs struct {
	engine

	answer chan struct{}
}

func (e slowBMCs) Identify(context.Context, bmc.Access, bmc.Credentials) (node.MachineFacts, error) {
	<-e.answer
	return node.MachineFacts{}, nil
}

func TestSlowBMCsOfOneNamespaceHoldFewWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := slowBMCs{answer: make(chan struct{})}
		p := identity{engine: slow, turns: &turns{taken: map[string]int{}}, answers: &answers{}}
		ask := func(namespace string) error {
			h := testHost(func(h *v1alpha1.BareMetalHost) { h.Namespace = namespace })
			return p.compare(t.Context(), newScope(h, testNow, 0), provisioner.Registration{Access: &bmc.Access{}}, make([]node.MachineFacts, 1))
		}
		holds := func(namespace string) {
			t.Helper()
			go func() {
				if err := ask(namespace); err != nil {
					t.Errorf("namespace %s: %v", namespace, err)
				}
			}()
			synctest.Wait()
		}
		holds("tenant")
		holds("tenant")
		if err := ask("tenant"); !errors.Is(err, provisioner.ErrBusy) {
			t.Errorf("third call of a namespace: %v, want that it has to wait", err)
		}
		holds("other")
		holds("other")
		if err := ask("third"); !errors.Is(err, provisioner.ErrBusy) {
			t.Errorf("fifth call of all: %v, want that it has to wait", err)
		}
		close(slow.answer)
		synctest.Wait()
		if err := ask("tenant"); err != nil {
			t.Errorf("after the others: %v", err)
		}
	})
}
