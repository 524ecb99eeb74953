package sim_test

import (
	"bytes"
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/polltest"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// installed returns a machine with an operating system on its disk, which counts its boots and
// ends with its context.
func installed(t *testing.T) (machine *sim.Machine, all *sim.Machines, booted, ended chan int64) {
	t.Helper()
	booted, ended = make(chan int64, 10), make(chan int64, 10)
	all, err := sim.New(sim.Options{
		Engine: "http://127.0.0.1:1", Machines: 1,
		Instance: func(ctx context.Context, i sim.Instance) {
			count, _ := i.ReadFile("/boots")
			boots, _ := strconv.Atoi(string(count))
			i.WriteFile("/boots", []byte(strconv.Itoa(boots+1)))
			i.Note("boot " + strconv.Itoa(boots+1))
			booted <- i.Run
			<-ctx.Done()
			ended <- i.Run
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(all.Stop)
	machine = all.Machine(0)
	install(t, machine)
	return machine, all, booted, ended
}

// install writes an operating system to a disk of a machine.
func install(t *testing.T, machine *sim.Machine) {
	t.Helper()
	w, err := machine.Disks().Write("/dev/sda", 1024)
	if err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte{0}, 512)
	content[510], content[511] = 0x55, 0xaa
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	image, _ := w.Image()
	if err := w.Commit(image); err != nil {
		t.Fatal(err)
	}
}

// expect waits for a run.
func expect(t *testing.T, runs <-chan int64, want int64) {
	t.Helper()
	select {
	case got := <-runs:
		if got != want {
			t.Errorf("run %d, want %d", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("nothing happens, want run %d", want)
	}
}

func TestOperatingSystemRunsUntilThePowerIsCut(t *testing.T) {
	machine, all, booted, ended := installed(t)
	if err := machine.PowerOn(); err != nil {
		t.Fatal(err)
	}
	expect(t, booted, 1)
	if run := all.Runs()[0]; !run.Until.IsZero() || run.Since.IsZero() || run.Machine != 0 {
		t.Errorf("%+v, want a run that has not ended", run)
	}
	machine.PowerOff()
	if run := all.Runs()[0]; run.Until.IsZero() {
		t.Errorf("%+v, want a run that has ended", run)
	}
	expect(t, ended, 1)
	if err := machine.PowerOn(); err != nil {
		t.Fatal(err)
	}
	expect(t, booted, 2)
	if got, _ := machine.Disks().ReadFile("/dev/sda", "/boots"); string(got) != "2" {
		t.Errorf("the operating system has counted %q boots, want 2", got)
	}
	if runs := all.Runs(); len(runs) != 2 || runs[0].Until.After(runs[1].Since) || !runs[1].Until.IsZero() {
		t.Errorf("runs %+v", runs)
	}
}

func TestOperatingSystemThatHangsIsSilentUntilTheNextBoot(t *testing.T) {
	machine, all, booted, ended := installed(t)
	if err := machine.Hang(); err == nil {
		t.Error("a machine that is off hangs")
	}
	if err := machine.PowerOn(); err != nil {
		t.Fatal(err)
	}
	expect(t, booted, 1)
	if err := machine.Hang(); err != nil {
		t.Fatal(err)
	}
	expect(t, ended, 1)
	if state := machine.Status().State; state != sim.OS || !all.Runs()[0].Until.IsZero() {
		t.Errorf("the machine is %s, runs %+v, want it powered", state, all.Runs())
	}
	if err := machine.Reboot(); err != nil {
		t.Fatal(err)
	}
	expect(t, booted, 2)

	machine.Break(true)
	expect(t, ended, 2)
	if err := machine.Reboot(); err != nil {
		t.Fatal(err)
	}
	polltest.UntilTrue(t, time.Minute, "the third run", func() bool { return len(all.Runs()) >= 3 })
	machine.Break(false)
	if err := machine.Reboot(); err != nil {
		t.Fatal(err)
	}
	expect(t, booted, 4)
}

func TestOperatingSystemThatHangsDoesNotShutDown(t *testing.T) {
	booted := make(chan int64, 10)
	machines := newBMCs(t, 1, func(o *sim.Options) {
		o.Instance = func(ctx context.Context, i sim.Instance) {
			booted <- i.Run
			<-ctx.Done()
		}
	})
	ctx, machine := soon(t), machines.Machine(0)
	install(t, machine)
	power := func(want bmc.PowerState) {
		t.Helper()
		reset(ctx, t, machines, 0, "GracefulShutdown")
		if got := machine.BMC().Power(); got != want {
			t.Errorf("power %s after the operating system was asked to shut down, want %s", got, want)
		}
	}
	reset(ctx, t, machines, 0, "On")
	expect(t, booted, 1)
	if err := machine.Hang(); err != nil {
		t.Fatal(err)
	}
	power(bmc.On)
	reset(ctx, t, machines, 0, "ForceRestart")
	expect(t, booted, 2)
	machine.Break(true)
	power(bmc.On)
	machine.Break(false)
	reset(ctx, t, machines, 0, "ForceRestart")
	expect(t, booted, 3)
	power(bmc.Off)
}
