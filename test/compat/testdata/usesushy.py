"""Uses a BMC through sushy as Ironic does, and prints what came of each step.

Its only argument is a JSON object: url, ca, user and password of the BMC; admin, the
URL of the simulator's page of the machine; attribute and value, of the BIOS; image, of
a virtual CD; firmware, a file for the BIOS; missing, a URL without a file. It writes one line per step: a JSON list of
the step's name and its result. The result of a refusal is the name of the error, with
the status if there is one.
"""

import json
import logging
import sys
import time
import urllib.request

import sushy
from sushy import auth, exceptions
from sushy.main import Sushy
from sushy.resources.manager import virtual_media

options = json.loads(sys.argv[1])
TIMEOUT = 20  # seconds that anything may take

# Debian leaves out the message registries of DMTF, without which sushy reads none.
Sushy._get_standard_message_registry_collection = lambda self: []
logging.disable(logging.WARNING)  # refusals are results here


def plain(value):
    """Makes JSON of the enumerations of sushy."""
    return getattr(value, "value", None) or str(value)


def step(name, do):
    """Does something and writes its result."""
    try:
        result = do()
    except exceptions.SushyError as error:
        result = f"{type(error).__name__} {getattr(error, 'status_code', '')}".strip()
    print(json.dumps([name, "done" if result is None else result], default=plain, separators=(",", ":"), sort_keys=True), flush=True)


def until(what, holds):
    """Waits for a condition."""
    deadline = time.monotonic() + TIMEOUT
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"gave up waiting for {what}")
        time.sleep(0.02)


def connect(way, password=None, verify=None):
    credentials = way(username=options["user"], password=password or options["password"])
    return Sushy(options["url"], verify=verify or options["ca"], auth=credentials)


def machine():
    """The machine as the simulator knows it."""
    with urllib.request.urlopen(options["admin"], timeout=TIMEOUT) as answer:
        return json.load(answer)


def login(way, password=None):
    """Reads the system as a client with a connection of its own."""
    root = connect(way, password)
    system = root.get_system()
    kind = "session" if "X-Auth-Token" in root._conn._session.headers else "basic"
    root._auth.close()
    return [kind, system.power_state]


def read_without_session():
    """Reads the system with a session that somebody else has deleted."""
    root, other = connect(auth.SessionAuth), connect(auth.BasicAuth)
    before = root._auth.get_session_resource_id()
    other.get_session_service().close_session(before)
    state = root.get_system().power_state
    after = root._auth.get_session_resource_id()
    root._auth.close()
    return [state, before != after]


def connections():
    for way in auth.SessionAuth, auth.BasicAuth, auth.SessionOrBasicAuth:
        step(f"log in with {way.__name__}", lambda: login(way))
        step(f"log in with {way.__name__} and a wrong password", lambda: login(way, "guess"))
    step("read after the end of the session", read_without_session)
    step("trust an unknown authority", lambda: connect(auth.BasicAuth, verify=True))


def inventory(root, system):
    chassis, manager, sessions = root.get_chassis(), root.get_manager(), root.get_session_service()
    step("service", lambda: [root.uuid == system.uuid, sessions.session_timeout, len(sessions.sessions.get_members())])
    step("system", lambda: [system.manufacturer, system.serial_number, system.memory_summary.size_gib, system.status.health])
    step("processors", lambda: list(system.processors.summary))
    step("interfaces", lambda: system.ethernet_interfaces.summary)
    step("drives", lambda: [
        [d.serial_number, d.capacity_bytes, d.status.state] for s in system.storage.get_members() for d in s.drives])
    step("largest drive", lambda: system.storage.max_drive_size_bytes)
    step("chassis", lambda: [chassis.serial_number, chassis.chassis_type, chassis.power_state])
    step("adapters", lambda: len(chassis.network_adapters.get_members()))
    step("manager", lambda: [manager.manager_type, manager.firmware_version])
    step("links", lambda: [
        system.managers[0].identity == manager.identity, system.chassis[0].identity == chassis.identity,
        manager.systems[0].identity == system.identity, chassis.managers[0].identity == manager.identity])


def boot_options(system):
    def choose(target=None, enabled=None, mode=None):
        system.set_system_boot_options(target=target, enabled=enabled, mode=mode)
        system.refresh()
        return [system.boot.target, system.boot.enabled, system.boot.mode]

    present = system.boot.mode
    other = next(m for m in (sushy.BOOT_SOURCE_MODE_UEFI, sushy.BOOT_SOURCE_MODE_BIOS) if m != present)
    for enabled in sushy.BOOT_SOURCE_ENABLED_ONCE, sushy.BOOT_SOURCE_ENABLED_CONTINUOUS:
        for target in sushy.BOOT_SOURCE_TARGET_PXE, sushy.BOOT_SOURCE_TARGET_HDD, sushy.BOOT_SOURCE_TARGET_CD:
            step(f"boot {target.value} {enabled.value}", lambda: choose(target, enabled, present))
    step("boot Pxe without a mode", lambda: choose(sushy.BOOT_SOURCE_TARGET_PXE, sushy.BOOT_SOURCE_ENABLED_ONCE))
    step("boot in the other mode", lambda: choose(sushy.BOOT_SOURCE_TARGET_PXE, sushy.BOOT_SOURCE_ENABLED_ONCE, other))
    step("boot in the mode of before", lambda: choose(sushy.BOOT_SOURCE_TARGET_PXE, sushy.BOOT_SOURCE_ENABLED_ONCE, present))


class Power:
    """Changes the power of a system and waits until that has happened."""

    def __init__(self, system):
        self.system = system

    def state(self):
        try:
            self.system.refresh()
        except sushy.exceptions.ResourceNotFoundError:  # some BMCs show no drives during POST
            return None
        return self.system.power_state

    def reset(self, kind, state, boots, starts=True):
        before = machine()["boots"]
        self.system.reset_system(kind)
        until(f"{state.value} after {kind.value}", lambda: self.state() == state and machine()["boots"] == before + boots)
        # An operating system that has not begun hears no request to shut down.
        until("the operating system", lambda: not starts or state != sushy.SYSTEM_POWER_STATE_ON or machine()["state"] not in ("on", "off"))
        return self.state()

    def on(self, starts=True):
        return self.reset(sushy.RESET_ON, sushy.SYSTEM_POWER_STATE_ON, 1, starts)

    def off(self):
        return self.reset(sushy.RESET_FORCE_OFF, sushy.SYSTEM_POWER_STATE_OFF, 0)


def resets(power):
    on, off = sushy.SYSTEM_POWER_STATE_ON, sushy.SYSTEM_POWER_STATE_OFF
    allowed = power.system.get_allowed_reset_system_values()
    step("resets", lambda: sorted(kind.value for kind in allowed))
    for kind, state, boots in (
        (sushy.RESET_ON, on, 1), (sushy.RESET_NMI, on, 0), (sushy.RESET_FORCE_RESTART, on, 1),
        (sushy.RESET_GRACEFUL_RESTART, on, 1), (sushy.RESET_TYPE_POWER_CYCLE, on, 1),
        (sushy.RESET_GRACEFUL_SHUTDOWN, off, 0), (sushy.RESET_PUSH_POWER_BUTTON, on, 1),
    ):
        step(f"reset {kind.value}", lambda: power.reset(kind, state, boots))
    if power.state() == off:  # there is no power button
        step("reset On for want of a power button", power.on)
    step("reset On again", lambda: power.reset(sushy.RESET_ON, on, 0))
    step("reset ForceOff", power.off)
    step("reset ForceOff again", power.off)
    step("reset Suspend", lambda: power.system.reset_system(sushy.ResetType.SUSPEND))


def secure_boot(system, power):
    secure = system.secure_boot

    def show():
        secure.refresh()
        return [secure.enabled, secure.current_boot, secure.mode]

    def restart():
        power.on(starts=False)  # nobody has signed the ramdisk, and the disks are empty
        power.off()
        return show()

    step("secure boot", show)
    step("enable secure boot", lambda: secure.set_enabled(True))
    step("secure boot before a boot", show)
    step("secure boot after a boot", restart)
    for kind in sushy.SECURE_BOOT_RESET_KEYS_DELETE_ALL, sushy.SECURE_BOOT_RESET_KEYS_TO_DEFAULT:
        step(f"reset keys {kind.value}", lambda: secure.reset_keys(kind) or show())
    step("disable secure boot", lambda: secure.set_enabled(False))
    step("secure boot after another boot", restart)


def bios(system, power):
    name, value = options["attribute"], options["value"]
    on_reset = sushy.ApplyTime.ON_RESET

    def show():
        system.bios.refresh()
        return [system.bios.attributes[name], system.bios.pending_attributes.get(name)]

    def change(attributes):
        supported = system.bios.supported_apply_times or ()
        system.bios.set_attributes(attributes, apply_time=on_reset if on_reset in supported else None)

    def restart():
        power.on()
        power.off()
        return show()

    def registered():
        entries = system.bios.get_attribute_registry().registry_entries.attributes
        entry = next(e for e in entries if e.name == name)
        return [entry.attribute_type, [v["ValueName"] for v in entry.allowable_values], entry.read_only, len(entries)]

    step("BIOS", show)
    step("BIOS registry", registered)
    step("BIOS apply times", lambda: system.bios.supported_apply_times)
    step("BIOS status", lambda: system.bios.update_status.status)
    step("change an unknown BIOS attribute", lambda: change({"NoSuchAttribute": "x"}))
    step("change the BIOS", lambda: change({name: value}))
    step("BIOS before a boot", show)
    step("BIOS after a boot", restart)
    step("reset the BIOS", lambda: system.bios.reset_bios())
    step("BIOS after its reset", restart)


def media(owner, collection):
    """Uses the slot for CDs of one list."""
    slot = next(m for m in collection.get_members() if sushy.VIRTUAL_MEDIA_CD in m.media_types)

    def show():
        slot.refresh()
        return [slot.inserted, slot.image, slot.image_name, slot.connected_via, slot.write_protected]

    step(f"insert at the {owner}", lambda: slot.insert_media(options["image"]) or show())
    step(f"insert at the {owner} again", lambda: slot.insert_media(options["image"]))
    step(f"eject at the {owner}", lambda: slot.eject_media() or show())
    step(f"eject at the {owner} again", slot.eject_media)


def system_media(system):
    """The list of slots at a system, of which this version of sushy knows nothing."""
    path = system.json.get("VirtualMedia", {}).get("@odata.id")
    return path and virtual_media.VirtualMediaCollection(system._conn, path)


def update(root, system, power):
    service = root.get_update_service()

    def newest():
        return root.get_task_service().tasks.get_members()[-1]

    def task():
        """What the task says, in the list and at its monitor."""
        listed, monitor = newest(), root.get_task_monitor(newest().task_monitor)
        own = monitor.get_task()
        return [listed.task_state, listed.task_status, monitor.is_processing, own.task_state == listed.task_state]

    def simple_update(uri):
        monitor = service.simple_update(uri)
        return monitor.is_processing and monitor.task.task_state

    def outcome():
        power.on()
        monitor = root.get_task_monitor(newest().task_monitor)
        until("the task", lambda: not monitor.check_is_processing)
        power.off()
        return task()

    def failure():
        failed = newest()
        failed.parse_messages()
        return [failed.task_state, failed.task_status, [[m.message_id, m.message] for m in failed.messages]]

    def installed():
        system.refresh()
        listed = {f.version for f in service.firmware_inventory.get_members()}
        return [system.bios_version, system.bios_version in listed]

    step("protocols of updates", lambda: sorted(p.value for p in service.get_allowed_transfer_protocols() if p.value.startswith("HTTP")))
    step("update", lambda: simple_update(options["firmware"]))
    step("task before a boot", task)
    step("task after a boot", outcome)
    step("firmware", installed)
    step("update from nowhere", lambda: simple_update(options["missing"]))
    step("task of the update from nowhere", failure)


def main():
    connections()
    root = connect(auth.SessionOrBasicAuth)
    system = root.get_system()
    power = Power(system)
    inventory(root, system)
    boot_options(system)
    resets(power)
    secure_boot(system, power)
    bios(system, power)
    media("manager", root.get_manager().virtual_media)
    if system_media(system):
        media("system", system_media(system))
    update(root, system, power)
    root._auth.close()


main()
