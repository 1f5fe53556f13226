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
	sumJSON struct {
		Count int   `json:"count"`
		Bytes int64 `json:"bytes"`
	}
	peakJSON struct {
		Bytes int64 `json:"bytes"`
		Event int   `json:"event"` // -1: before the recording
	}
	groupJSON struct {
		Where   string `json:"where"`
		Count   int    `json:"count"`
		Bytes   int64  `json:"bytes"`
		Largest int64  `json:"largest_bytes"`
	}
	oomJSON struct {
		Event       int         `json:"event"`
		Tried       int64       `json:"tried_bytes"`
		DeviceFree  int64       `json:"device_free_bytes"`
		Allocated   int64       `json:"allocated_bytes"`
		Reserved    int64       `json:"reserved_bytes"`
		CachedFree  int64       `json:"cached_free_bytes"`
		LargestFree int64       `json:"largest_free_bytes"`
		Why         string      `json:"why"`
		Live        []groupJSON `json:"live"`
	}
	deviceJSON struct {
		Device        int                `json:"device"`
		Allocated     int64              `json:"allocated_bytes"`
		Active        int64              `json:"active_bytes"`
		Requested     int64              `json:"requested_bytes"`
		Reserved      int64              `json:"reserved_bytes"`
		Fragmentation float64            `json:"fragmentation"`
		LargestFree   int64              `json:"largest_free_bytes"`
		InactiveSplit sumJSON            `json:"inactive_split"`
		Segments      map[string]sumJSON `json:"segments"`
		Blocks        map[string]sumJSON `json:"blocks"`
		Events        int                `json:"events"`
		Actions       map[string]int     `json:"actions"`
		PeakAllocated peakJSON           `json:"peak_allocated"`
		PeakReserved  peakJSON           `json:"peak_reserved"`
		PeakRequested peakJSON           `json:"peak_requested"`
		OOMs          []oomJSON          `json:"ooms"`
		Exact         bool               `json:"exact"`
		Doubts        []string           `json:"doubts"`
	}
	showJSON struct {
		Schema    string       `json:"schema"`
		File      string       `json:"file"`
		AllocConf string       `json:"alloc_conf"`
		Devices   []deviceJSON `json:"devices"`
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
			if err := o.check(snapshotSource(args[0])); err != nil {
				return err
			}
			s, err := readSnapshot(e, args[0])
			if err != nil {
				return err
			}
			r := showJSON{Schema: snapshotSchema, File: args[0], AllocConf: s.AllocConf(), Devices: []deviceJSON{}}
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
					return writeJSON(w, r)
				}
				return r.text(w, s)
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
	sum := func(x snapshot.Sum) sumJSON { return sumJSON(x) }
	peak := func(p snapshot.Peak) peakJSON { return peakJSON(p) }
	j := deviceJSON{
		Device: device, Allocated: f.Allocated, Active: f.Active, Requested: f.Requested, Reserved: f.Reserved,
		Fragmentation: f.Fragmentation(), LargestFree: f.LargestFree, InactiveSplit: sum(f.InactiveSplit),
		Segments: map[string]sumJSON{"small": sum(f.Small), "large": sum(f.Large), "expandable": sum(f.Expandable)},
		Blocks:   map[string]sumJSON{}, Actions: map[string]int{},
		PeakAllocated: peak(h.Allocated), PeakReserved: peak(h.Reserved), PeakRequested: peak(h.Requested),
		OOMs: []oomJSON{}, Exact: h.Exact, Doubts: append([]string{}, h.Doubts...),
	}
	for i, b := range f.Blocks {
		j.Blocks[snapshot.BlockState(i).String()] = sum(b)
	}
	for _, a := range s.Actions(device) {
		j.Actions[s.ActionName(a.Action)] = a.Count
		j.Events += a.Count
	}
	for i := range h.OOMs {
		x := &h.OOMs[i]
		live, err := s.LiveAt(device, x.Event)
		if err != nil {
			return deviceJSON{}, fail(exitInput, "%s: %w", quoteArg(arg), err)
		}
		k := oomJSON{Event: x.Event, Tried: x.Tried, DeviceFree: x.DeviceFree, Allocated: x.Moment.Allocated, Reserved: x.Moment.Reserved,
			CachedFree: x.Free, LargestFree: x.LargestFree, Why: why(x), Live: []groupJSON{}}
		groups := snapshot.GroupBy(live, func(l snapshot.Live) string { return s.SiteOf(l, true) })
		for _, g := range groups[:min(len(groups), 10)] {
			k.Live = append(k.Live, groupJSON{g.Label, g.Count, g.Bytes, g.Largest})
		}
		j.OOMs = append(j.OOMs, k)
	}
	return j, nil
}

// why tells what stood against an allocation.
func why(o *snapshot.OutOfMemory) string {
	cached := fmt.Sprintf("the largest of %d cached pieces has %s", o.Pieces, report.Size(o.LargestFree))
	switch {
	case o.Pieces == 0:
		cached = "nothing is cached"
	case o.LargestFree >= o.Tried:
		cached = fmt.Sprintf("a cached piece of %s cannot serve it: it is of another stream or pool", report.Size(o.LargestFree))
	case o.Free >= o.Tried:
		cached = fmt.Sprintf("%s are cached, but in %d pieces of at most %s: fragmentation", report.Size(o.Free), o.Pieces, report.Size(o.LargestFree))
	}
	if o.DeviceFree >= o.Tried {
		return fmt.Sprintf("the device had %s free, so a limit on the process stood against it; %s", report.Size(o.DeviceFree), cached)
	}
	return fmt.Sprintf("the device had %s left; %s", report.Size(o.DeviceFree), cached)
}

// text writes the report for people.
func (r *showJSON) text(w io.Writer, s *snapshot.Snapshot) error {
	p := &printer{w: w}
	p.line("file          %s", report.Show(r.File, 0))
	if r.AllocConf != "" {
		p.line("settings      %s", report.Show(r.AllocConf, 0))
	}
	if len(r.Devices) == 0 {
		p.line("The snapshot holds neither segments nor events.")
	}
	for i := range r.Devices {
		d := &r.Devices[i]
		p.line("")
		p.line("device %d", d.Device)
		p.size("allocated", d.Allocated, fmt.Sprintf("in %s blocks", report.Count(int64(d.Blocks["active_allocated"].Count))))
		p.size("active", d.Active, fmt.Sprintf("%s of them wait for another stream", report.Count(int64(d.Blocks["active_pending_free"].Count))))
		p.size("requested", d.Requested, "")
		p.size("reserved", d.Reserved, fmt.Sprintf("in %s segments", report.Count(int64(d.Segments["small"].Count+d.Segments["large"].Count+d.Segments["expandable"].Count))))
		p.size("cached", d.Reserved-d.Active, fmt.Sprintf("%.1f %% of reserved, in %s blocks", d.Fragmentation*100, report.Count(int64(d.Blocks["inactive"].Count))))
		p.size("  largest", d.LargestFree, "")
		p.size("  split", d.InactiveSplit.Bytes, fmt.Sprintf("in %s blocks of segments that are in use", report.Count(int64(d.InactiveSplit.Count))))
		for _, k := range []string{"small", "large", "expandable"} {
			if n := d.Segments[k]; n.Count > 0 {
				p.size("segments", n.Bytes, fmt.Sprintf("in %s %s ones", report.Count(int64(n.Count)), k))
			}
		}
		p.size("peak", d.PeakAllocated.Bytes, "allocated, at "+eventName(s, d.Device, d.PeakAllocated.Event))
		p.size("", d.PeakReserved.Bytes, "reserved, at "+eventName(s, d.Device, d.PeakReserved.Event))
		p.line("%-12s  %s", "events", report.Count(int64(d.Events)))
		for _, a := range s.Actions(d.Device) {
			p.line("  %-18s  %s", report.Show(s.ActionName(a.Action), 40), report.Count(int64(a.Count)))
		}
		for k := range d.OOMs {
			o := &d.OOMs[k]
			p.line("")
			p.line("out of memory at event %d: %s were wanted with %s allocated and %s reserved", o.Event, report.Size(o.Tried), report.Size(o.Allocated), report.Size(o.Reserved))
			p.line("  %s", o.Why)
			p.line("  in use:")
			for _, g := range o.Live {
				p.line("  %12s  in %s  %s", report.Size(g.Bytes), report.Count(int64(g.Count)), report.Show(g.Where, 100))
			}
		}
		p.doubts(fmt.Sprintf("device %d", d.Device), d.Doubts)
	}
	return p.err
}

// A printer writes lines and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

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
