package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/snapshot"
	"github.com/memestimate/memestimate/spelling"
)

// An eventJSON is one line of a trace.
type eventJSON struct {
	Event    int      `json:"event"`
	Time     int64    `json:"time_us"`
	Action   string   `json:"action"`
	Addr     uint64   `json:"addr"`
	Size     int64    `json:"size_bytes"`
	Stream   int64    `json:"stream"`
	Where    string   `json:"where"`
	Label    string   `json:"label"` // by --by
	Metadata string   `json:"user_metadata"`
	Context  string   `json:"compile_context"`
	Category string   `json:"category"`
	Frames   []string `json:"frames"`
	// the event whose frames are these, where they are too many to be written again
	FramesOf *int `json:"frames_of,omitempty"`
}

// A sieve is the filters of "snapshot events".
type sieve struct {
	actions   []string
	from, to  int
	least     string
	addr      string
	regex     string
	leastSize int64
	at        uint64 // the address, where there is an addr
}

func (f *sieve) flags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringSliceVar(&f.actions, "action", nil,
		"only these: alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map, "+
			"segment_unmap, snapshot, oom")
	fs.IntVar(&f.from, "from", 0, "the first event to list")
	fs.IntVar(&f.to, "to", -1, "the last event to list (the last of all)")
	fs.StringVar(&f.least, "min-size", "", "only events of this size or more, such as 1MiB")
	fs.StringVar(&f.addr, "addr", "", "only events at this address, as 0x7f...")
	fs.StringVar(&f.regex, "regex", "", "only events of which a frame matches this pattern")
}

func (f *sieve) check() error {
	if f.least != "" {
		n, err := spelling.Size(f.least)
		if err != nil {
			return usagef("--min-size %q, wanted a size such as 1MiB", f.least)
		}
		f.leastSize = n
	}
	if f.addr != "" {
		n, err := strconv.ParseUint(f.addr, 0, 64)
		if err != nil {
			return usagef("--addr %q, wanted an address such as 0x7f0000000000", f.addr)
		}
		f.at = n
	}
	if f.from < 0 || f.to >= 0 && f.to < f.from {
		return usagef("--from %d --to %d, wanted numbers from 0 on, the smaller one first", f.from, f.to)
	}
	return nil
}

// snapshotEventsCommand lists a trace.
func snapshotEventsCommand(e *env) *cobra.Command {
	var o output
	var d deviceFlag
	var f sieve
	var n int
	var by string
	cmd := &cobra.Command{
		Use:   "events FILE",
		Short: "List the recorded events: what was allocated and freed, when, where and by whom",
		Args:  exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if n < 0 {
				return usagef("--count %d, wanted 0 (all) or more", n)
			}
			if err := f.check(); err != nil {
				return err
			}
			s, device, err := d.open(e, &o, args[0])
			if err != nil {
				return err
			}
			label, err := s.NewLabeler(device, by)
			if err != nil {
				return usagef("--by %w", err)
			}
			match := func(snapshot.StackID) bool { return true }
			if f.regex != "" {
				re, err := s.NewLabeler(device, "regex", f.regex)
				if err != nil {
					return usagef("--regex %w", err)
				}
				match = func(id snapshot.StackID) bool { return re.Matches(id) }
			}
			list, all := events(s, device, &f, label, match, n)
			if o.format == "json" {
				addFrames(s, device, list)
			}
			return o.write(e, func(w io.Writer) error {
				if o.format == "json" {
					return encodeJSON(w, eventList{eventsForm, args[0], device, all, list})
				}
				if err := o.grid(w, e, eventGrid(list, o.format)); err != nil || o.format != "text" {
					return err
				}
				if all > len(list) {
					_, err := fmt.Fprintf(w, "\n... %s more; -n 0 lists all\n", report.Count(int64(all-len(list))))
					return err
				}
				return nil
			})
		},
	}
	f.flags(cmd)
	d.flag(cmd)
	cmd.Flags().StringVar(&by, "by", "frame", "what the last column tells: "+strings.Join(snapshot.By, ", "))
	cmd.Flags().IntVarP(&n, "count", "n", 100, "how many events at most; 0 for all")
	o.flags(cmd.Flags(), "text", "markdown", "csv", "json")
	return cmd
}

// events lists what passes the filters, at most n (0: all), and says how many there are.
func events(s *snapshot.Snapshot, device int, f *sieve, label *snapshot.Labeler, match func(snapshot.StackID) bool,
	n int) (list []eventJSON, all int) {
	list = []eventJSON{}
	for i, e := range s.Trace(device).All() {
		action := s.ActionName(e.Action)
		switch {
		case i < f.from || f.to >= 0 && i > f.to || e.Size < f.leastSize:
			continue
		case len(f.actions) > 0 && !slices.Contains(f.actions, action):
			continue
		case f.addr != "" && (uint64(e.Addr) != f.at || e.Action == snapshot.OOM):
			continue
		case !match(e.Stack):
			continue
		}
		all++
		if n > 0 && len(list) == n {
			continue
		}
		note := &s.Notes[e.Note]
		j := eventJSON{Event: i, Time: e.Time, Action: action, Addr: uint64(e.Addr), Size: e.Size, Stream: s.Streams[e.Stream],
			Where: s.UserSite(e.Stack), Label: label.Event(e),
			Metadata: note.UserMetadata, Context: note.CompileContext, Category: note.Category, Frames: []string{}}
		list = append(list, j)
	}
	return list, all
}

// Stacks are written with each event as long as they take no more than this, in bytes, and so much for each event. From
// there on a stack is written once: a small file has one of thousands of calls for thousands of events.
const (
	framesBytes   = 16 << 20
	framesAnEvent = 256
)

// addFrames adds the frames of the events.
func addFrames(s *snapshot.Snapshot, device int, list []eventJSON) {
	type written struct {
		frames []string
		bytes  int
		event  int
	}
	stacks, left := map[snapshot.StackID]*written{}, framesBytes+framesAnEvent*len(list)
	trace := s.Trace(device)
	for i := range list {
		j := &list[i]
		id := trace.At(j.Event).Stack
		w := stacks[id]
		if w == nil {
			w = &written{frames: []string{}, event: j.Event}
			for _, k := range s.Stack(id) {
				w.frames = append(w.frames, s.Frames[k].String())
				w.bytes += len(w.frames[len(w.frames)-1])
			}
			stacks[id] = w
		} else if w.bytes > left {
			j.FramesOf = &w.event
			continue
		}
		left -= w.bytes
		j.Frames = w.frames
	}
}

func eventGrid(list []eventJSON, format string) *report.Grid {
	g := &report.Grid{Columns: []report.Column{{Title: "Event", Right: true}, {Title: "Time", Right: true},
		{Title: "Action"}, {Title: "Address"}, {Title: "Size", Right: true}, {Title: "Stream"}, {Title: "Where", File: true}}}
	for i := range list {
		x := &list[i]
		size, when := report.Size(x.Size), ""
		if x.Time > 0 {
			when = time.UnixMicro(x.Time).UTC().Format("15:04:05.000000")
		}
		if format == "csv" {
			size, when = strconv.FormatInt(x.Size, 10), strconv.FormatInt(x.Time, 10)
		}
		stream := "0"
		if x.Stream != 0 {
			stream = fmt.Sprintf("0x%x", x.Stream)
		}
		g.Rows = append(g.Rows, []string{strconv.Itoa(x.Event), when, report.Show(x.Action, 40), fmt.Sprintf("0x%x", x.Addr),
			size, stream, x.Label})
	}
	return g
}
