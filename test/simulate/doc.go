// Package simulate runs conductors, their runner and a real store under a clock that only the
// simulation moves, with a scheduler that decides by a seed. At every commit and at every call to a
// machine, the scheduler chooses what happens: all goes well; the process dies before or after it;
// the database is unavailable, or fails at the end of a write; the answer is lost; the machine
// refuses, lies or hangs. Between commits and calls, processes are paused, killed and stopped, and
// clients make requests. The machines live outside the engine's memory and keep a log of what was
// done to them. What must hold is checked in these logs, not in the engine's own state.
//
// In most runs the machines are fake hardware. In every fourth run they are simulated servers: BMCs
// behind the drivers of Redfish and IPMI, and ramdisks whose agents look themselves up, send
// heartbeats and carry out commands. Requests to these servers, and from them to the engine, are
// sent without sockets. The scheduler decides about each request that changes something. A third of
// these runs is about the RAID volumes of the servers, which cleanings and deployments delete and
// make. In most others, one BMC is reached through IPMI.
//
// "make simulate SEED=n" replays one run, "make simulate SEEDS=1000 FIRST=n" runs many. The folder
// defects has patches with defects which the engine once had, or which show that a check can fail;
// "make simulate-defects" shows the seed that catches each.
package simulate
