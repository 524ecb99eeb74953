package autoscale

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

var (
	now       = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	unbounded = bounds{most: -1}
)

func TestSizeFollowsHosts(t *testing.T) {
	t.Parallel()
	const (
		follows = v1beta2.AutoscaleFollowsReason
		waits   = v1beta2.AutoscaleFallingReason
	)
	since := func(ago time.Duration, replicas int32) *falling {
		return &falling{Since: now.Add(-ago), Replicas: replicas}
	}
	marked := func(r *falling, ago time.Duration) *falling { r.Marked = now.Add(-ago); return r }
	type want struct {
		replicas int32
		reason   string
		falling  *falling
	}
	for name, tc := range map[string]struct {
		facts facts
		want  want
	}{
		"no hosts":                     {facts{bounds: unbounded}, want{0, follows, nil}},
		"hosts come":                   {facts{replicas: 1, inUse: 1, free: 2, bounds: unbounded}, want{3, follows, nil}},
		"first hosts":                  {facts{free: 2, bounds: unbounded}, want{2, follows, nil}},
		"all in use":                   {facts{replicas: 3, inUse: 3, bounds: unbounded}, want{3, follows, nil}},
		"machine without host waits":   {facts{replicas: 3, inUse: 2, free: 1, bounds: unbounded}, want{3, follows, nil}},
		"hosts come back":              {facts{replicas: 3, inUse: 1, returning: 2, bounds: unbounded}, want{3, follows, nil}},
		"hosts come during a rollout":  {facts{replicas: 3, inUse: 3, free: 1, rolling: true, bounds: unbounded}, want{4, follows, nil}},
		"a rollout surges":             {facts{replicas: 2, inUse: 3, rolling: true, bounds: bounds{most: 2}}, want{2, v1beta2.AutoscaleAtMaximumReason, nil}},
		"growing forgets fewer hosts":  {facts{replicas: 2, inUse: 2, free: 1, falling: since(time.Minute, 1), bounds: unbounded}, want{3, follows, nil}},
		"hosts are back in time":       {facts{replicas: 2, inUse: 2, falling: since(59*time.Second, 1), bounds: unbounded}, want{2, follows, nil}},
		"least":                        {facts{replicas: 1, inUse: 1, bounds: bounds{2, -1}}, want{2, v1beta2.AutoscaleAtMinimumReason, nil}},
		"as many as the least":         {facts{replicas: 2, inUse: 1, free: 1, bounds: bounds{2, -1}}, want{2, follows, nil}},
		"most":                         {facts{replicas: 1, inUse: 1, free: 5, bounds: bounds{most: 3}}, want{3, v1beta2.AutoscaleAtMaximumReason, nil}},
		"as many as the most":          {facts{replicas: 3, inUse: 3, bounds: bounds{most: 3}}, want{3, follows, nil}},
		"most below what is in use":    {facts{replicas: 5, inUse: 5, free: 1, bounds: bounds{most: 3}}, want{5, v1beta2.AutoscaleInUseReason, nil}},
		"most 0":                       {facts{free: 1, bounds: bounds{}}, want{0, v1beta2.AutoscaleAtMaximumReason, nil}},
		"most, some replicas too many": {facts{replicas: 6, inUse: 4, bounds: bounds{most: 3}}, want{6, waits, since(0, 4)}},

		"fewer hosts":                      {facts{replicas: 3, inUse: 2, bounds: unbounded}, want{3, waits, since(0, 2)}},
		"fewer hosts, a rollout":           {facts{replicas: 3, inUse: 1, rolling: true, bounds: unbounded}, want{3, v1beta2.AutoscaleRolloutReason, nil}},
		"a rollout begins the wait anew":   {facts{replicas: 3, inUse: 2, rolling: true, falling: since(time.Hour, 2), bounds: unbounded}, want{3, v1beta2.AutoscaleRolloutReason, nil}},
		"fewer hosts than the least":       {facts{replicas: 3, inUse: 1, bounds: bounds{2, -1}}, want{3, waits, since(0, 2)}},
		"not long enough":                  {facts{replicas: 3, inUse: 2, falling: since(shrinkDelay-1, 2), bounds: unbounded}, want{3, waits, since(shrinkDelay-1, 2)}},
		"long enough":                      {facts{replicas: 3, inUse: 2, falling: since(shrinkDelay, 2), bounds: unbounded}, want{2, follows, nil}},
		"marked a moment ago":              {facts{replicas: 3, inUse: 2, falling: marked(since(shrinkDelay, 2), time.Second), bounds: unbounded}, want{3, waits, marked(since(shrinkDelay, 2), time.Second)}},
		"marks were seen":                  {facts{replicas: 3, inUse: 2, falling: marked(since(shrinkDelay, 2), markLead), bounds: unbounded}, want{2, follows, nil}},
		"even fewer meanwhile":             {facts{replicas: 5, inUse: 2, falling: since(30*time.Second, 4), bounds: unbounded}, want{5, waits, since(30*time.Second, 4)}},
		"more meanwhile, but too few":      {facts{replicas: 5, inUse: 2, free: 2, falling: since(30*time.Second, 3), bounds: unbounded}, want{5, waits, since(30*time.Second, 4)}},
		"to the most of the time":          {facts{replicas: 5, inUse: 2, falling: since(shrinkDelay, 4), bounds: unbounded}, want{4, waits, since(0, 2)}},
		"more at the end":                  {facts{replicas: 5, inUse: 4, falling: since(shrinkDelay, 2), bounds: unbounded}, want{4, follows, nil}},
		"to nothing":                       {facts{replicas: 1, falling: since(shrinkDelay, 0), bounds: unbounded}, want{0, follows, nil}},
		"record of a larger size":          {facts{replicas: 3, inUse: 2, falling: since(time.Hour, 3), bounds: unbounded}, want{3, waits, since(0, 2)}},
		"record of a clock that went back": {facts{replicas: 3, inUse: 2, falling: since(-time.Second, 2), bounds: unbounded}, want{3, waits, since(0, 2)}},
		"never below what is in use":       {facts{replicas: 3, inUse: 3, falling: since(time.Hour, 1), bounds: bounds{most: 1}}, want{3, v1beta2.AutoscaleInUseReason, nil}},
	} {
		tc.facts.now = now
		d := size(tc.facts)
		if diff := cmp.Diff(tc.want, want{d.replicas, d.reason, d.falling}, cmp.AllowUnexported(want{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if waits := d.falling != nil; waits != (d.again > 0) || d.again > shrinkDelay {
			t.Errorf("%s: waits %v, looks again after %s", name, waits, d.again)
		}
	}
}

// TestSizeKeepsItsPromises checks all facts with small numbers.
func TestSizeKeepsItsPromises(t *testing.T) {
	t.Parallel()
	for _, f := range allFacts() {
		d := size(f)
		planned := d.planned()
		switch {
		case min(d.replicas, planned) < min(f.inUse, f.replicas):
			t.Errorf("%+v: %d below what is in use", f, d.replicas)
		case f.rolling && d.replicas < f.replicas:
			t.Errorf("%+v: %d during a rollout", f, d.replicas)
		case d.replicas < f.replicas && (f.falling == nil || f.now.Sub(f.falling.Since) < shrinkDelay):
			t.Errorf("%+v: %d without a wait", f, d.replicas)
		case d.replicas > f.replicas && d.replicas > f.inUse+f.returning+f.free && d.replicas != f.bounds.least:
			t.Errorf("%+v: %d, more than there are hosts", f, d.replicas)
		case f.bounds.most >= 0 && d.replicas > max(f.replicas, f.bounds.most):
			t.Errorf("%+v: %d, above the most", f, d.replicas)
		}
		// What was decided is not changed by another pass.
		f.replicas, f.falling = d.replicas, d.falling
		if again := size(f); again.replicas != d.replicas || !cmp.Equal(again.falling, d.falling) {
			t.Errorf("%+v: %+v, and then %+v", f, d, again)
		}
	}
}

func allFacts() []facts {
	var all []facts
	records := []*falling{nil, {Since: now.Add(-time.Second), Replicas: 1}, {Since: now.Add(-shrinkDelay)}, {Since: now.Add(-shrinkDelay), Replicas: 2}, {Since: now.Add(-shrinkDelay), Replicas: 2, Marked: now.Add(-time.Second)}}
	for replicas := range int32(5) {
		for inUse := range int32(4) {
			for returning := range int32(2) {
				for free := range int32(3) {
					for _, rolling := range []bool{false, true} {
						for _, b := range []bounds{unbounded, {most: 2}, {least: 2, most: 3}, {least: 1, most: -1}} {
							for _, record := range records {
								all = append(all, facts{replicas, inUse, returning, free, rolling, b, record, now})
							}
						}
					}
				}
			}
		}
	}
	return all
}

func TestRecordSurvivesItsAnnotation(t *testing.T) {
	t.Parallel()
	record := &falling{Since: now, Replicas: 7, Marked: now.Add(-time.Minute)}
	if got := parseFalling(record.String()); !cmp.Equal(got, record) {
		t.Errorf("read %+v, want %+v", got, record)
	}
	for _, text := range []string{"", "x", "{}", `{"replicas": 3}`, `{"since": 5}`} {
		if got := parseFalling(text); got != nil {
			t.Errorf("read %+v from %q, want nothing", got, text)
		}
	}
}
