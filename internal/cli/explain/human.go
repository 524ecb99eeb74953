package explain

import (
	"fmt"
	"strings"
	"time"
)

// spans are the units of durations, the largest first. A unit is used for durations of at least
// twice its size, so "90 minutes" does not become "1 hour".
var spans = []struct {
	size time.Duration
	name string
}{
	{24 * time.Hour, "day"},
	{time.Hour, "hour"},
	{time.Minute, "minute"},
	{time.Second, "second"},
}

// span returns a duration in words: "12 minutes".
func span(d time.Duration) string {
	for _, unit := range spans {
		if d >= 2*unit.size {
			return fmt.Sprintf("%d %ss", d/unit.size, unit.name)
		}
	}
	if d >= time.Second {
		return "1 second"
	}
	return "a moment"
}

// clock returns a time in the time zone of now, with the date if it is another day.
func clock(now, at time.Time) string {
	at = at.In(now.Location())
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}

// since returns "for 12 minutes, since 10:02:11", or "" for an unknown time.
func since(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return fmt.Sprintf("for %s, since %s", span(now.Sub(at)), clock(now, at))
}

// ago returns "12 minutes ago, at 10:02:11".
func ago(now, at time.Time) string {
	return fmt.Sprintf("%s ago, at %s", span(now.Sub(at)), clock(now, at))
}

// statement returns a sentence made of a clause and a remark in brackets. It leaves out empty
// brackets.
func statement(clause, bracket string) string {
	clause = strings.TrimRight(strings.TrimSpace(clause), ".")
	if bracket != "" {
		clause += " (" + bracket + ")"
	}
	return clause + "."
}
