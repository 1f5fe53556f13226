package main

import (
	"fmt"
	"strings"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/snapshot"
	"github.com/memestimate/memestimate/snapshot/oom"
)

// What "snapshot show" says of memory that ran out, in JSON. Sizes are in bytes.
type (
	freeJSON struct {
		Stream  int64    `json:"stream"`
		Pool    [2]int64 `json:"pool"`
		Small   bool     `json:"small"`
		Bytes   int64    `json:"bytes"`
		Pieces  int      `json:"pieces"`
		Largest int64    `json:"largest_bytes"`
		Serves  bool     `json:"serves"` // the request may have it
	}
	oomJSON struct {
		Event       int          `json:"event"`
		Count       int          `json:"count"` // failures at this place
		Last        int          `json:"last_event"`
		Tried       int64        `json:"tried_bytes"`
		DeviceFree  int64        `json:"device_free_bytes"`
		Allocated   int64        `json:"allocated_bytes"`
		Reserved    int64        `json:"reserved_bytes"`
		CachedFree  int64        `json:"cached_free_bytes"`
		LargestFree int64        `json:"largest_free_bytes"`
		Stream      int64        `json:"stream"`
		Where       string       `json:"where"`
		Caller      string       `json:"caller"`
		Phase       string       `json:"phase"`
		Frames      []string     `json:"frames"`
		Cause       string       `json:"cause"`
		Why         string       `json:"why"`
		Round       int          `json:"round"` // of the loop, 0 where none is to be seen
		Ages        oom.Ages     `json:"ages"`
		Live        []oom.Holder `json:"live"`
		Free        []freeJSON   `json:"free"`
		Remedies    []oom.Remedy `json:"remedies"`
		Unsure      bool         `json:"unsure"`  // the replay under the recording's own settings does not run out
		Untried     string       `json:"untried"` // why no remedy was tried; empty where they were
	}
)

// shownHolders is how many lines that hold memory are told.
const shownHolders = 10

// oomsOf explains the failures of a device. More is the number of those that are not explained.
func oomsOf(s *snapshot.Snapshot, h *snapshot.History) (out []oomJSON, more int, err error) {
	list, more, err := oom.Explain(s, h)
	if err != nil {
		return nil, 0, err
	}
	out = []oomJSON{}
	for i := range list {
		out = append(out, oomOf(s, &list[i]))
	}
	return out, more, nil
}

func oomOf(s *snapshot.Snapshot, f *oom.Failure) oomJSON {
	o := &f.First
	j := oomJSON{Event: o.Event, Count: f.Count, Last: f.Last, Tried: o.Tried, DeviceFree: o.DeviceFree,
		Allocated: o.Moment.Allocated, Reserved: o.Moment.Reserved,
		Stream: o.Stream, Where: f.Site, Caller: f.Caller, Phase: f.Phase, Frames: []string{}, Cause: string(f.Cause),
		Why: f.Says(report.Size), Round: f.Rounds,
		Ages: f.ByAge, Live: append([]oom.Holder{}, f.Held[:min(len(f.Held), shownHolders)]...), Free: []freeJSON{},
		Remedies: append([]oom.Remedy{}, f.Remedies...), Unsure: f.Unsure,
		Untried: clean(f.Untried)}
	for _, k := range s.Stack(o.Stack) {
		j.Frames = append(j.Frames, s.Frames[k].String())
	}
	for _, x := range f.Free {
		j.CachedFree += x.Bytes
		j.LargestFree = max(j.LargestFree, x.Largest)
		j.Free = append(j.Free, freeJSON{x.Stream, x.Pool, x.Small, x.Bytes, x.Pieces, x.Largest,
			x.Serves(o.Stream, o.Tried)})
	}
	return j
}

// limit says what stood against the request.
func (o *oomJSON) limit() string {
	if o.DeviceFree >= o.Tried {
		return fmt.Sprintf("the device had %s free, so a limit on the process stood against it", report.Size(o.DeviceFree))
	}
	return fmt.Sprintf("the device had %s left", report.Size(o.DeviceFree))
}

// text writes the explanation for people.
func (o *oomJSON) text(p *printer) {
	p.line("out of memory at event %d: %s asked for %s, with %s allocated and %s reserved", o.Event, place(o.Where),
		report.Size(o.Tried), report.Size(o.Allocated), report.Size(o.Reserved))
	if o.Count > 1 {
		p.line("  and %s more at this place, until event %d", times(o.Count-1), o.Last)
	}
	p.line("  %s", o.limit())
	p.line("  cause: %s: %s", strings.ReplaceAll(o.Cause, "-", " "), clean(o.Why))
	p.line("  held by:")
	for _, x := range o.Live {
		rounds := ""
		if x.Rounds > 1 {
			rounds = fmt.Sprintf(", of %s", report.Plural(x.Rounds, "round"))
		}
		phase := ""
		if x.Phase != "" {
			phase = ", " + x.Phase
		}
		p.line("  %12s  in %s  %s%s%s", report.Size(x.Bytes), report.Count(int64(x.Count)), place(x.Site), phase, rounds)
		if x.Caller != "" {
			p.line("                called by %s", place(x.Caller))
		}
	}
	if len(o.Free) == 0 {
		p.line("  cached: nothing")
	} else {
		p.line("  cached:")
	}
	for _, x := range o.Free {
		whose := fmt.Sprintf("of stream %#x", x.Stream)
		if x.Stream == 0 {
			whose = "of the default stream"
		}
		if x.Small {
			whose += ", for small blocks"
		}
		if x.Pool != [2]int64{} {
			whose += fmt.Sprintf(", of the private pool (%d, %d)", x.Pool[0], x.Pool[1])
		}
		if x.Serves {
			whose += ": the request may have it"
		} else {
			whose += ": not for this request"
		}
		p.line("  %12s  in %s of at most %s, %s", report.Size(x.Bytes), report.Plural(x.Pieces, "piece"), report.Size(x.Largest),
			whose)
	}
	if len(o.Remedies) > 0 {
		p.line("  what would have helped, tried by replay:")
	}
	if o.Untried != "" {
		p.line("  what would have helped was not tried by replay: %s", clean(o.Untried))
	}
	if o.Unsure {
		p.line("                (a replay under the recording's own settings does not run out, so none is certain)")
	}
	for _, r := range o.Remedies {
		what := clean(r.What)
		if r.Conf != "" {
			what += " (" + clean(r.Conf) + ")"
		}
		p.line("  %12s  %s", r.Helps, what)
	}
	if len(o.Frames) > 0 {
		p.line("  asked for by, innermost first:")
	}
	const most = 12
	for _, f := range o.Frames[:min(len(o.Frames), most)] {
		p.line("                %s", place(f))
	}
	if n := len(o.Frames) - most; n > 0 {
		p.line("                ... and %s more", report.Plural(n, "call"))
	}
}

// place is a place in a program, ready to be shown.
func place(name string) string { return report.Show(name, 100) }

func clean(s string) string { return report.Clean(s) }

// times says how often: "once", "3 times".
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return report.Count(int64(n)) + " times"
}
