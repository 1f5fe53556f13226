package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/snapshot"
)

// labels are the ways to group allocations: the choices of --by.
var labels = []struct {
	name string
	of   func(s *snapshot.Snapshot) func(snapshot.Live) string
}{
	{"frame", func(s *snapshot.Snapshot) func(snapshot.Live) string {
		return func(l snapshot.Live) string { return s.SiteOf(l, false) }
	}},
	{"user", func(s *snapshot.Snapshot) func(snapshot.Live) string {
		return func(l snapshot.Live) string { return s.SiteOf(l, true) }
	}},
	{"stack", func(s *snapshot.Snapshot) func(snapshot.Live) string {
		return func(l snapshot.Live) string { return stackText(s, l) }
	}},
	{"allocation", func(s *snapshot.Snapshot) func(snapshot.Live) string {
		return func(l snapshot.Live) string { return fmt.Sprintf("0x%x:%s", l.Addr, s.SiteOf(l, false)) }
	}},
}

// stackText is a whole stack on one line, innermost frame first.
func stackText(s *snapshot.Snapshot, l snapshot.Live) string {
	frames := s.Stack(l.Stack)
	if len(frames) == 0 {
		return s.SiteOf(l, false)
	}
	text := make([]string, len(frames))
	for i, f := range frames {
		text[i] = s.Frames[f].String()
	}
	return strings.Join(text, " < ")
}

// grouping is the flags --by and --at.
type grouping struct{ by, at string }

func (g *grouping) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&g.by, "by", "frame", "what to add up by: frame (the innermost of Python), user (the innermost outside of packages), stack, allocation")
	cmd.Flags().StringVar(&g.at, "at", "peak", "when: peak, end, start, oom, or the number of an event")
}

// groups adds up what a device held.
func (g *grouping) groups(s *snapshot.Snapshot, arg string, device int) ([]snapshot.Group, int, error) {
	h, err := history(s, arg, device)
	if err != nil {
		return nil, 0, err
	}
	events := 0
	if device < len(s.Traces) {
		events = s.Traces[device].Len()
	}
	at, err := moment(h, arg, events, g.at)
	if err != nil {
		return nil, 0, err
	}
	for _, l := range labels {
		if l.name != g.by {
			continue
		}
		live, err := s.LiveAt(device, at)
		if err != nil {
			return nil, 0, fail(exitInput, "%s: %w", quoteArg(arg), err)
		}
		return snapshot.GroupBy(live, l.of(s)), at, nil
	}
	return nil, 0, usagef("--by %q, wanted frame, user, stack or allocation", g.by)
}

// snapshotTopCommand lists what takes the most memory.
func snapshotTopCommand(e *env) *cobra.Command {
	var o output
	var g grouping
	var d deviceFlag
	var n int
	cmd := &cobra.Command{
		Use:   "top FILE",
		Short: "List what takes the most memory, at the peak or at any other time",
		Args:  exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(snapshotSource(args[0])); err != nil {
				return err
			}
			if n < 0 {
				return usagef("--count %d, wanted 0 (all) or more", n)
			}
			s, err := readSnapshot(e, args[0])
			if err != nil {
				return err
			}
			device, err := d.of(s, args[0])
			if err != nil {
				return err
			}
			groups, at, err := g.groups(s, args[0], device)
			if err != nil {
				return err
			}
			return o.write(e, func(w io.Writer) error {
				if o.format == "json" {
					return topJSON(w, args[0], device, at, groups, n)
				}
				return o.grid(w, e, topGrid(groups, n))
			})
		},
	}
	g.flags(cmd)
	d.flag(cmd)
	cmd.Flags().IntVarP(&n, "count", "n", 20, "how many rows; 0 for all")
	o.flags(cmd.Flags(), "text", "markdown", "csv", "json")
	return cmd
}

// first is how many of so many rows to show; 0 asks for all.
func first(n, of int) int {
	if n == 0 {
		return of
	}
	return min(n, of)
}

func total(groups []snapshot.Group) (count int, bytes int64) {
	for _, g := range groups {
		count += g.Count
		bytes += g.Bytes
	}
	return count, bytes
}

func topGrid(groups []snapshot.Group, n int) *report.Grid {
	g := &report.Grid{Columns: []report.Column{{Title: "#", Right: true}, {Title: "Bytes", Right: true}, {Title: "Size", Right: true}, {Title: "Share", Right: true},
		{Title: "Count", Right: true}, {Title: "Largest", Right: true}, {Title: "Where", File: true}}}
	count, bytes := total(groups)
	share := func(b int64) string {
		if bytes == 0 {
			return "0.0 %"
		}
		return strconv.FormatFloat(float64(b)/float64(bytes)*100, 'f', 1, 64) + " %"
	}
	for i, r := range groups[:first(n, len(groups))] {
		g.Rows = append(g.Rows, []string{strconv.Itoa(i + 1), strconv.FormatInt(r.Bytes, 10), report.Size(r.Bytes), share(r.Bytes), strconv.Itoa(r.Count), report.Size(r.Largest), r.Label})
	}
	g.Footer = []string{"", strconv.FormatInt(bytes, 10), report.Size(bytes), share(bytes), strconv.Itoa(count), "", ""}
	return g
}

func topJSON(w io.Writer, file string, device, at int, groups []snapshot.Group, n int) error {
	r := struct {
		Schema string      `json:"schema"`
		File   string      `json:"file"`
		Device int         `json:"device"`
		Event  int         `json:"event"`
		Count  int         `json:"count"`
		Bytes  int64       `json:"bytes"`
		Groups []groupJSON `json:"groups"`
	}{Schema: snapshotSchema, File: file, Device: device, Event: at, Groups: []groupJSON{}}
	r.Count, r.Bytes = total(groups)
	for _, g := range groups[:first(n, len(groups))] {
		r.Groups = append(r.Groups, groupJSON{g.Label, g.Count, g.Bytes, g.Largest})
	}
	return writeJSON(w, r)
}
