package main

import (
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/snapshot"
)

// grouping is the flags --by, --regex and --at.
type grouping struct {
	by, at string
	regex  []string
}

func (g *grouping) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&g.by, "by", "frame",
		"what to add up by: frame (the innermost of Python), user (the innermost outside of packages), "+
			strings.Join(snapshot.By[2:], ", "))
	cmd.Flags().StringArrayVar(&g.regex, "regex", nil,
		"add up by a pattern: the innermost frame that matches it; or NAME=PATTERN, more than once: the name of the first "+
			"that a frame matches")
	cmd.Flags().StringVar(&g.at, "at", "peak",
		"when: peak, end, start, oom, the number of an event, or begin:NAME or end:NAME of a range that the program marked")
}

// labeler checks --by and --regex.
func (g *grouping) labeler(s *snapshot.Snapshot, device int) (*snapshot.Labeler, error) {
	by := g.by
	if len(g.regex) > 0 && by == "frame" {
		by = "regex"
	}
	if len(g.regex) > 0 && by != "regex" {
		return nil, usagef("--regex goes with --by regex, not with --by %s", by)
	}
	l, err := s.NewLabeler(device, by, g.regex...)
	if err != nil {
		return nil, usagef("--by %w", err)
	}
	return l, nil
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
	at, err := moment(s, h, arg, events, g.at)
	if err != nil {
		return nil, 0, err
	}
	l, err := g.labeler(s, device)
	if err != nil {
		return nil, 0, err
	}
	live, err := s.LiveAt(device, at)
	if err != nil {
		return nil, 0, fail(exitInput, "%s: %w", quoteArg(arg), err)
	}
	return snapshot.GroupBy(live, l.Live), at, nil
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
			if n < 0 {
				return usagef("--count %d, wanted 0 (all) or more", n)
			}
			s, device, err := d.open(e, &o, args[0])
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
	g := &report.Grid{Columns: []report.Column{{Title: "#", Right: true}, {Title: "Bytes", Right: true},
		{Title: "Size", Right: true}, {Title: "Share", Right: true},
		{Title: "Count", Right: true}, {Title: "Largest", Right: true}, {Title: "Where", File: true}}}
	count, bytes := total(groups)
	share := func(b int64) string {
		if bytes == 0 {
			return "0.0 %"
		}
		return strconv.FormatFloat(float64(b)/float64(bytes)*100, 'f', 1, 64) + " %"
	}
	for i, r := range groups[:first(n, len(groups))] {
		g.Rows = append(g.Rows, []string{strconv.Itoa(i + 1), strconv.FormatInt(r.Bytes, 10), report.Size(r.Bytes),
			share(r.Bytes), strconv.Itoa(r.Count), report.Size(r.Largest), r.Label})
	}
	g.Footer = []string{"", strconv.FormatInt(bytes, 10), report.Size(bytes), share(bytes), strconv.Itoa(count), "", ""}
	return g
}

func topJSON(w io.Writer, file string, device, at int, groups []snapshot.Group, n int) error {
	r := topList{Schema: topForm, File: file, Device: device, Event: at,
		Groups: append([]snapshot.Group{}, groups[:first(n, len(groups))]...)}
	r.Count, r.Bytes = total(groups)
	return encodeJSON(w, r)
}
