package agent

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// in puts the node into a provision state.
func in(s node.State) func(*node.Node) { return func(n *node.Node) { n.ProvisionState = s } }

// of gives the node a hardware type.
func of(driver string) func(*node.Node) { return func(n *node.Node) { n.Driver = driver } }

func withoutToken(n *node.Node) { n.DriverInternalInfo = nil }

// called is a call to the agent of machine that ended so.
func called(err error) Call { return Call{Token: "the-token", Reply: ReplyOf(err)} }

// Errors of calls to agents, as they come from the network.
var (
	errRefused     = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	errUnreachable = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}
	errNoFiles     = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	errWrongCert   = fmt.Errorf("call agent: %w", x509.UnknownAuthorityError{})
)

// TestWhoKeepsATokenAndWhoGetsANewOne has each case of a lookup: who has the token, for
// how long that agent was not heard, what a call to it showed, and what the state of the
// node expects.
func TestWhoKeepsATokenAndWhoGetsANewOne(t *testing.T) {
	const past = window + time.Microsecond
	const notFound = TokenAnswer(-1) // the state expects no ramdisk
	step := func(set func(*node.Node, node.Object)) func(*node.Node) {
		return func(n *node.Node) { set(n, node.ObjectOf(map[string]any{"step": "erase"})) }
	}
	clean := func(text string) func(*node.Node) {
		return func(n *node.Node) { n.CleanStep = node.Object(text) }
	}
	silent := machine(time.Hour, beaten(past))
	for name, tc := range map[string]struct {
		n    *node.Node
		call Call
		want TokenAnswer
	}{
		// Nobody has a token.
		"no token":               {machine(0, withoutToken), Call{}, IssueToken},
		"no token, BMC":          {machine(0, of("redfish"), withoutToken, in(node.CleanWait)), Call{}, IssueToken},
		"no token, step running": {machine(0, withoutToken, in(node.CleanWait)), Call{}, IssueToken},
		"no token, inspect wait": {machine(0, withoutToken, in(node.InspectWait)), Call{}, IssueToken},

		// The agent was heard: nobody is called, whatever an earlier call showed.
		"just issued":                          {machine(time.Second), Call{}, RetryLater},
		"issued a window ago":                  {machine(window), Call{}, RetryLater},
		"beat a window ago":                    {machine(time.Hour, beaten(window)), Call{}, RetryLater},
		"beat during the call":                 {machine(time.Hour, beaten(0)), called(errRefused), RetryLater},
		"beat, inspect wait":                   {machine(time.Hour, beaten(window), in(node.InspectWait)), Call{}, RetryLater},
		"beat, inspecting":                     {machine(time.Hour, beaten(window), in(node.Inspecting)), Call{}, RetryLater},
		"clock went back behind the heartbeat": {machine(-time.Hour, beaten(-time.Hour)), called(errRefused), RetryLater},

		// The agent is silent, and nothing is stored where it could be called.
		"never beat, silent":               {machine(past), Call{}, ReissueToken},
		"never beat, silent, inspect wait": {machine(past, in(node.InspectWait)), Call{}, ReissueToken},
		"never beat, of unknown age":       {machine(0, func(n *node.Node) { n.DriverInternalInfo = node.ObjectOf(map[string]any{TokenKey: "t"}) }), Call{}, ReissueToken},

		// The agent is silent: it is called first.
		"silent":                       {silent, Call{}, CallAgent},
		"silent, answers":              {silent, called(nil), RetryLater},
		"silent, refuses":              {silent, called(errRefused), ReissueToken},
		"silent, no such host":         {silent, called(errUnreachable), ReissueToken},
		"silent, times out":            {silent, called(context.DeadlineExceeded), ReissueToken},
		"silent, wrong certificate":    {silent, called(errWrongCert), ReissueToken},
		"silent, no agent answers":     {silent, called(errors.New("status 404")), ReissueToken},
		"silent, no room for a call":   {silent, called(ErrNotCalled), RetryLater},
		"silent, caller went away":     {silent, called(errors.Join(ErrNotCalled, context.Canceled)), RetryLater},
		"silent, engine out of files":  {silent, called(errNoFiles), RetryLater},
		"silent, another one's call":   {silent, Call{Token: "of the agent before", Reply: NoAnswer}, CallAgent},
		"silent, inspect wait":         {machine(time.Hour, beaten(past), in(node.InspectWait)), Call{}, CallAgent},
		"silent, inspect wait, lives":  {machine(time.Hour, beaten(past), in(node.InspectWait)), called(nil), RetryLater},
		"silent, inspect wait, gone":   {machine(time.Hour, beaten(past), in(node.InspectWait)), called(errRefused), ReissueToken},
		"silent, inspecting, gone":     {machine(time.Hour, beaten(past), in(node.Inspecting)), called(errRefused), ReissueToken},
		"silent, BMC, inspect wait":    {machine(time.Hour, beaten(past), of("redfish"), in(node.InspectWait)), Call{}, CallAgent},
		"silent, available, gone":      {machine(time.Hour, beaten(past), in(node.Available)), called(errRefused), ReissueToken},
		"silent, service hold, gone":   {machine(time.Hour, beaten(past), in(node.ServiceHold)), called(errRefused), ReissueToken},
		"silent, fake hardware, gone":  {machine(time.Hour, beaten(past), of("fake-hardware")), called(errRefused), ReissueToken},
		"silent, gone, no ramdisk due": {machine(time.Hour, beaten(past), in(node.Active)), called(errRefused), notFound},
		"no token, no ramdisk due":     {machine(0, withoutToken, in(node.Active)), Call{}, notFound},

		// The state waits for a ramdisk or the engine works, but no command runs on the agent.
		"clean wait, beat":                 {machine(time.Hour, beaten(window), in(node.CleanWait)), Call{}, RetryLater},
		"clean wait, silent":               {machine(time.Hour, beaten(past), in(node.CleanWait)), Call{}, CallAgent},
		"clean wait, answers":              {machine(time.Hour, beaten(past), in(node.CleanWait)), called(nil), RetryLater},
		"clean wait, gone":                 {machine(time.Hour, beaten(past), in(node.CleanWait)), called(errRefused), ReissueToken},
		"wait call-back, gone":             {machine(time.Hour, beaten(past), in(node.DeployWait)), called(errRefused), ReissueToken},
		"service wait, just issued":        {machine(0, in(node.ServiceWait)), Call{}, RetryLater},
		"rescue wait, gone":                {machine(time.Hour, beaten(past), in(node.RescueWait)), called(errWrongCert), ReissueToken},
		"cleaning, beat":                   {machine(time.Hour, beaten(0), in(node.Cleaning)), Call{}, RetryLater},
		"waits for a heartbeat, beat":      {machine(time.Hour, beaten(0), in(node.CleanWait), clean(`{"interface":"deploy","step":"wait"}`)), Call{}, RetryLater},
		"waits for a heartbeat, gone":      {machine(time.Hour, beaten(past), in(node.CleanWait), clean(`{"interface":"deploy","step":"wait"}`)), called(errRefused), ReissueToken},
		"children run a step, beat":        {machine(time.Hour, beaten(0), in(node.CleanWait), clean(`{"step":"erase","execute_on_child_nodes":true}`)), Call{}, RetryLater},
		"BMC, clean wait, beat":            {machine(time.Hour, beaten(0), of("redfish"), in(node.CleanWait)), Call{}, MaskToken},
		"BMC, waits for a heartbeat, gone": {machine(time.Hour, beaten(past), of("redfish"), in(node.CleanWait), clean(`{"interface":"deploy","step":"wait"}`)), called(errRefused), MaskToken},

		// A command runs on the agent, which asks again to read its node anew.
		"command, beat":               {machine(time.Hour, beaten(0), in(node.CleanWait), clean(`{"step":"erase"}`)), Call{}, MaskToken},
		"command, gone":               {machine(time.Hour, beaten(past), in(node.Cleaning), clean(`{"step":"erase"}`)), called(errRefused), MaskToken},
		"command of deployment":       {machine(time.Hour, beaten(past), in(node.DeployWait), step(func(n *node.Node, o node.Object) { n.DeployStep = o })), called(errRefused), MaskToken},
		"command of servicing":        {machine(time.Hour, beaten(past), in(node.ServiceWait), step(func(n *node.Node, o node.Object) { n.ServiceStep = o })), Call{}, MaskToken},
		"command, unreadable":         {machine(time.Hour, beaten(past), in(node.CleanWait), clean(`["erase"]`)), called(errRefused), MaskToken},
		"step, posted before":         {machine(time.Hour, beaten(past), posted, in(node.CleanWait)), Call{}, CallAgent},
		"step, posted before, gone":   {machine(time.Hour, beaten(past), posted, in(node.CleanWait)), called(errRefused), ReissueToken},
		"step, posted before, lives":  {machine(time.Hour, beaten(past), posted, in(node.CleanWait)), called(nil), RetryLater},
		"step, posted, beat since":    {machine(time.Hour, posted, beaten(past), in(node.CleanWait), clean(`{"step":"erase"}`)), called(errRefused), MaskToken},
		"step, posted, beat before":   {machine(time.Hour, beaten(window), posted, in(node.CleanWait)), Call{}, RetryLater},
		"BMC, just issued":            {machine(window, of("redfish"), in(node.DeployWait)), Call{}, RetryLater},
		"BMC, never beat, silent":     {machine(past, of("redfish"), in(node.DeployWait)), Call{}, ReissueToken},
		"BMC, never beat, step shown": {machine(past, of("redfish"), in(node.CleanWait), clean(`{"step":"erase"}`)), Call{}, ReissueToken},
		"BMC, posted before, gone":    {machine(time.Hour, beaten(past), posted, of("redfish"), in(node.Manageable), keptRunning), called(errRefused), ReissueToken},
		"BMC, silent, gone":           {machine(time.Hour, beaten(past), of("redfish"), in(node.Manageable), keptRunning), called(errRefused), MaskToken},
		"BMC, silent, step":           {machine(time.Hour, beaten(past), of("redfish"), in(node.CleanWait)), Call{}, MaskToken},
		"BMC, silent, no ramdisk due": {machine(time.Hour, beaten(past), of("redfish"), in(node.Manageable)), Call{}, notFound},
	} {
		got := notFound
		if MayLookUp(tc.n.ProvisionState, FastTrack(tc.n, hardware(tc.n), false)) {
			got = DecideToken(tc.n, hardware(tc.n), now, window, tc.call)
		}
		if got != tc.want {
			t.Errorf("%s: answer = %d, want %d", name, got, tc.want)
		}
	}
}

// keptRunning has the ramdisk of a node run between phases.
func keptRunning(n *node.Node) { n.DriverInfo = node.ObjectOf(map[string]any{"fast_track": true}) }
