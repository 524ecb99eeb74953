//go:build compat

package compat_test

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// syscallEvent is one system call as strace saw it. Start and end are line numbers of the trace.
// strace writes a line when a call begins and when it ends, from one process and in the order in
// which it stopped the threads, so these numbers order the calls of all threads without any
// rounding of clocks. A call has not begun before the line of its start is written, and it has
// ended before the line of its end is written.
type syscallEvent struct {
	name       string
	fd         string // what the first argument refers to: a path or socket:[inode]
	args       string
	result     int // -1 when the call failed or never returned
	start, end int
	at         string // time of the beginning, seconds since 1970
}

// ok reports whether the call did something.
func (e syscallEvent) ok() bool { return e.result >= 0 }

var (
	// Thread, time and call: 4711 1700000000.123456 read(….
	traceLine = regexp.MustCompile(`^(\d+) +(\d+\.\d+) (.*)$`)
	// The end of a call that was interrupted: <... read resumed>"GET /", 4096) = 5.
	resumedCall = regexp.MustCompile(`^<\.\.\. (\w+) resumed>(.*)$`)
	// A call and what its file descriptor is: read(9</path or socket:[1]>, ….
	beginningOfCall = regexp.MustCompile(`^(\w+)\(`)
	firstArgument   = regexp.MustCompile(`^\d+<([^>]*)>`)
	// The text after the closing parenthesis and the sign of equality.
	resultOfCall = regexp.MustCompile(`^(-?\d+|\?)`)
)

const unfinished = " <unfinished ...>"

// parseTrace reads the output of strace -f -ttt -y. It joins calls that calls of other threads
// interrupt in the output. It skips lines that are no calls, such as signals and exits. A line of
// any other form is an error, so that a strace with another format cannot make a test pass.
func parseTrace(trace io.Reader) ([]syscallEvent, error) {
	var events []syscallEvent
	open := map[string]*syscallEvent{} // calls in progress by thread
	lines := bufio.NewScanner(trace)
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		parts := traceLine.FindStringSubmatch(lines.Text())
		if parts == nil {
			return nil, fmt.Errorf("trace line %d has no thread and time: %.200q", number, lines.Text())
		}
		thread, at, text := parts[1], parts[2], parts[3]
		if strings.HasPrefix(text, "---") || strings.HasPrefix(text, "+++") {
			continue
		}
		var call *syscallEvent
		if resumed := resumedCall.FindStringSubmatch(text); resumed != nil {
			call = open[thread]
			if call == nil || call.name != resumed[1] {
				return nil, fmt.Errorf("trace line %d resumes a call that did not begin: %.200q", number, text)
			}
			delete(open, thread)
			call.args += resumed[2]
		} else {
			begun := beginningOfCall.FindStringSubmatch(text)
			if begun == nil {
				return nil, fmt.Errorf("trace line %d is no system call: %.200q", number, text)
			}
			call = &syscallEvent{name: begun[1], args: text[len(begun[0]):], start: number, at: at, result: -1}
			if args, cut := strings.CutSuffix(call.args, unfinished); cut {
				call.args = args
				open[thread] = call
				continue
			}
		}
		call.end = number
		if err := call.finish(); err != nil {
			return nil, fmt.Errorf("trace line %d: %w", number, err)
		}
		events = append(events, *call)
	}
	return events, lines.Err()
}

// finish separates the result from the arguments.
func (e *syscallEvent) finish() error {
	// strace pads the space before the sign for short calls, and data may hold
	// the sign too, but not behind the last one.
	end := strings.LastIndex(e.args, ") ")
	if end < 0 {
		return fmt.Errorf("%s has no end: %.200q", e.name, e.args)
	}
	rest, equals := strings.CutPrefix(strings.TrimLeft(e.args[end+1:], " "), "= ")
	value := resultOfCall.FindString(rest)
	if !equals || value == "" {
		return fmt.Errorf("%s has no result: %.200q", e.name, e.args[end:])
	}
	e.args = e.args[:end]
	if fd := firstArgument.FindStringSubmatch(e.args); fd != nil {
		e.fd = fd[1]
	}
	if value != "?" {
		result, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("%s: result %q: %w", e.name, value, err)
		}
		e.result = result
	}
	return nil
}

// exchange is one request and its answer, as the engine sees them on its connection.
type exchange struct {
	id      string // value of the header exchangeHeader
	request string // its first line
	status  int
	arrived int    // line at which the engine had read its beginning
	answer  int    // line at which the engine began to write the answer
	at      string // time of the answer
}

// exchangeHeader names a request in the trace.
const exchangeHeader = "X-Exchange"

var (
	exchangeID   = regexp.MustCompile(exchangeHeader + `: ([\w-]+)`)
	answerStatus = regexp.MustCompile(`"HTTP/1\.1 (\d{3}) `)
	quotedData   = regexp.MustCompile(`^\d+<[^>]*>, "((?:[^"\\]|\\.)*)"`)
)

// exchanges finds the requests and answers among the calls. A connection carries
// one exchange at a time.
func exchanges(events []syscallEvent) []exchange {
	var found []exchange
	open := map[string]*exchange{} // by connection
	text := map[string]string{}
	for _, e := range events {
		if !strings.HasPrefix(e.fd, "socket:") || !e.ok() {
			continue
		}
		switch {
		case e.name == "read" && e.result > 0:
			if open[e.fd] == nil {
				open[e.fd] = &exchange{arrived: e.end}
				text[e.fd] = ""
			}
			if data := quotedData.FindStringSubmatch(e.args); data != nil {
				text[e.fd] += data[1]
			}
		case e.name == "write" && open[e.fd] != nil:
			status := answerStatus.FindStringSubmatch(e.args)
			if status == nil {
				continue // a further part of an answer
			}
			x := *open[e.fd]
			delete(open, e.fd)
			x.answer, x.at = e.start, e.at
			x.status, _ = strconv.Atoi(status[1])
			x.request, _, _ = strings.Cut(text[e.fd], `\r\n`)
			if id := exchangeID.FindStringSubmatch(text[e.fd]); id != nil {
				x.id = id[1]
			}
			found = append(found, x)
		}
	}
	return found
}
