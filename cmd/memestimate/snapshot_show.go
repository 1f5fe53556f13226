package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/snapshot"
)

// What "snapshot show" says, in JSON. Sizes are in bytes.
type (
	deviceJSON struct {
		Device        int                     `json:"device"`
		Allocated     int64                   `json:"allocated_bytes"`
		Active        int64                   `json:"active_bytes"`
		Requested     int64                   `json:"requested_bytes"`
		Reserved      int64                   `json:"reserved_bytes"`
		Fragmentation float64                 `json:"fragmentation"`
		LargestFree   int64                   `json:"largest_free_bytes"`
		InactiveSplit snapshot.Sum            `json:"inactive_split"`
		Segments      map[string]snapshot.Sum `json:"segments"`
		Blocks        map[string]snapshot.Sum `json:"blocks"`
		Events        int                     `json:"events"`
		Actions       map[string]int          `json:"actions"`
		PeakAllocated *snapshot.Peak          `json:"peak_allocated"` // null where nothing was recorded
		PeakReserved  *snapshot.Peak          `json:"peak_reserved"`
		PeakRequested *snapshot.Peak          `json:"peak_requested"`
		Unsure        int64                   `json:"unsure_bytes"` // by how much the peaks of allocated bytes may be off
		OOMs          []oomJSON               `json:"ooms"`
		MoreOOMs      int                     `json:"more_ooms"` // failures at further places, which are not explained
		Exact         bool                    `json:"exact"`
		Places        []snapshot.Group        `json:"places"` // what held memory at the peak, by the innermost frame of Python
		Doubts        []string                `json:"doubts"`
	}
	showJSON struct {
		Schema    string       `json:"schema"`
		File      string       `json:"file"`
		AllocConf string       `json:"alloc_conf"`
		Devices   []deviceJSON `json:"devices"`

		name string // what the file is called
	}
)

// snapshotShowCommand tells what a snapshot holds.
func snapshotShowCommand(e *env) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Tell what a snapshot holds: memory, segments, blocks, events, failed allocations",
		Args:  exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := openSnapshot(e, &o, args[0])
			if err != nil {
				return err
			}
			r := showJSON{Schema: showForm, File: args[0], AllocConf: s.AllocConf, Devices: []deviceJSON{}, name: args[0]}
			if args[0] == "-" {
				r.name = snapshotSource(e, args[0]).name
			}
			for d := range s.Devices() {
				if !used(s, d) {
					continue
				}
				j, err := showDevice(s, args[0], d)
				if err != nil {
					return err
				}
				r.Devices = append(r.Devices, j)
			}
			return o.write(e, func(w io.Writer) error {
				if o.format == "json" {
					return report.JSON(w, r)
				}
				r.text(w, s)
				return nil
			})
		},
	}
	o.flags(cmd.Flags(), "text", "json")
	return cmd
}

func showDevice(s *snapshot.Snapshot, arg string, device int) (deviceJSON, error) {
	h, err := history(s, arg, device)
	if err != nil {
		return deviceJSON{}, err
	}
	f := s.Figures(device)
	peak := func(p snapshot.Peak) *snapshot.Peak {
		if !h.Recorded {
			return nil
		}
		return &p
	}
	j := deviceJSON{
		Device: device, Allocated: f.Allocated, Active: f.Active, Requested: f.Requested, Reserved: f.Reserved,
		Fragmentation: f.Fragmentation(), LargestFree: f.LargestFree, InactiveSplit: f.InactiveSplit,
		Segments: map[string]snapshot.Sum{"small": f.Small, "large": f.Large, "expandable": f.Expandable},
		Blocks:   map[string]snapshot.Sum{}, Actions: map[string]int{},
		PeakAllocated: peak(h.Allocated), PeakReserved: peak(h.Reserved), PeakRequested: peak(h.Requested), Unsure: h.Unsure,
		Exact: h.Exact, Doubts: append([]string{}, h.Doubts...),
	}
	for i, b := range f.Blocks {
		j.Blocks[snapshot.BlockState(i).String()] = b
	}
	for _, a := range s.Actions(device) {
		j.Actions[s.ActionName(a.Action)] = a.Count
		j.Events += a.Count
	}
	at := h.Allocated.Event
	if !h.Recorded {
		at = -1
	}
	live, _, err := s.At(device, at)
	if err == nil {
		j.Places = append([]snapshot.Group{}, snapshot.GroupBy(live, s.SiteOf)...)
		j.OOMs, j.MoreOOMs, err = oomsOf(s, h)
	}
	if err != nil {
		return deviceJSON{}, fail(exitInput, "%s: %w", quoteArg(arg), err)
	}
	return j, nil
}

// mostPlaces is how many places a text names.
const mostPlaces = 10

// text writes the report for people.
func (r *showJSON) text(w io.Writer, s *snapshot.Snapshot) {
	p := &printer{w}
	p.line("file          %s", report.Show(r.name, 0))
	if r.AllocConf != "" {
		p.line("settings      %s", report.Show(r.AllocConf, 0))
	}
	if len(r.Devices) == 0 {
		p.line("The snapshot holds neither segments nor events.")
	}
	for i := range r.Devices {
		d := &r.Devices[i]
		for k := range d.OOMs {
			p.line("")
			d.OOMs[k].text(p)
		}
		if d.MoreOOMs > 0 {
			p.line("")
			p.line("Memory ran out %s more, at other places.", times(d.MoreOOMs))
		}
		p.line("")
		p.line("device %d", d.Device)
		p.size("allocated", d.Allocated, "in "+report.Plural(d.Blocks["active_allocated"].Count, "block"))
		p.size("active", d.Active, fmt.Sprintf("%s of them wait for another stream",
			report.Count(int64(d.Blocks["active_pending_free"].Count))))
		p.size("requested", d.Requested, "")
		p.size("reserved", d.Reserved,
			"in "+report.Plural(d.Segments["small"].Count+d.Segments["large"].Count+d.Segments["expandable"].Count, "segment"))
		p.size("cached", d.Reserved-d.Active, fmt.Sprintf("%.1f %% of reserved, in %s", d.Fragmentation*100,
			report.Plural(d.Blocks["inactive"].Count, "block")))
		p.size("  largest", d.LargestFree, "")
		p.size("  split", d.InactiveSplit.Bytes, fmt.Sprintf("in %s of segments that are in use",
			report.Plural(d.InactiveSplit.Count, "block")))
		for _, k := range []string{"small", "large", "expandable"} {
			if n := d.Segments[k]; n.Count > 0 {
				p.size("segments", n.Bytes, "in "+report.Plural(n.Count, k+" one"))
			}
		}
		if d.PeakAllocated == nil {
			p.line("%-12s  %s", "peak", "unknown: no events were recorded (torch.cuda.memory._record_memory_history)")
		} else {
			p.size("peak", d.PeakAllocated.Bytes, "allocated, at "+eventName(s, d.Device, d.PeakAllocated.Event))
			p.size("", d.PeakReserved.Bytes, "reserved, at "+eventName(s, d.Device, d.PeakReserved.Event))
		}
		for i, g := range d.Places[:min(len(d.Places), mostPlaces)] {
			p.line("%-12s  %12s  in %s  %s", map[bool]string{true: "held then by"}[i == 0], report.Size(g.Bytes),
				report.Count(int64(g.Count)), report.Show(g.Label, 0))
		}
		if n := len(d.Places) - mostPlaces; n > 0 {
			p.line("%-12s  and %s more places: --format json has them", "", report.Count(int64(n)))
		}
		p.line("%-12s  %s", "events", report.Count(int64(d.Events)))
		for _, a := range s.Actions(d.Device) {
			p.line("  %-18s  %s", report.Show(s.ActionName(a.Action), 40), report.Count(int64(a.Count)))
		}
		p.doubts(fmt.Sprintf("device %d", d.Device), d.Doubts)
	}
}

// A printer writes lines.
type printer struct{ w io.Writer }

func (p *printer) line(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }

// doubts writes the first few things that were not as expected.
func (p *printer) doubts(of string, list []string) {
	const most = 3
	for _, t := range list[:min(len(list), most)] {
		p.line("note: %s: %s", of, t)
	}
	if n := len(list) - most; n > 0 {
		p.line("note: %s: and %d more such; --format json has them", of, n)
	}
}

// size writes a name, a size for people, its bytes and what there is to say about it.
func (p *printer) size(name string, bytes int64, what string) {
	text := fmt.Sprintf("%-12s  %12s  %15s B", name, report.Size(bytes), report.Count(bytes))
	if what != "" {
		text += "  " + what
	}
	p.line("%s", text)
}
