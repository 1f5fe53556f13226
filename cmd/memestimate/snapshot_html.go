package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/report/page"
	"github.com/memestimate/memestimate/snapshot"
)

// snapshotHTMLCommand draws one recording, or two over each other.
func snapshotHTMLCommand(e *env) *cobra.Command {
	var o output
	var d deviceFlag
	cmd := &cobra.Command{
		Use:   "html FILE [FILE]",
		Short: "Draw a snapshot, or two over each other, as a page that works offline",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("html: no FILE given").withHint("usage: %s", cmd.UseLine())
			}
			if len(args) > 2 {
				return usagef("html: %d files, wanted one or two", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := onceStdin(args); err != nil {
				return err
			}
			var p page.Page
			var names []string
			for _, a := range args {
				in := snapshotSource(e, a)
				s, err := openSnapshot(e, &o, a)
				if err != nil {
					return err
				}
				device, err := d.of(s, a)
				if err != nil {
					return err
				}
				r, err := page.Recorded(s, device)
				if err != nil {
					return fail(exitInput, "%s: %w", quoteArg(a), err)
				}
				r.Name = in.name
				names = append(names, in.name)
				p.Runs = append(p.Runs, *r)
				of := ""
				if len(args) > 1 {
					of = ", " + report.Show(r.Name, 60)
				}
				if err := oomOnPage(&p, s, device, a, of); err != nil {
					return err
				}
				p.Facts = append(p.Facts, page.RecordedFacts(s, device, r, of)...)
				p.Tables = append(p.Tables, page.SegmentTable(r, of))
			}
			p.Title = strings.Join(names, " and ")
			return o.write(e, func(w io.Writer) error { return page.Write(w, &p) })
		},
	}
	d.flag(cmd)
	o.flags(cmd.Flags(), "html")
	return cmd
}

// oomOnPage puts first why memory ran out. of tells the file from another one.
func oomOnPage(p *page.Page, s *snapshot.Snapshot, device int, arg, of string) error {
	h, err := history(s, arg, device)
	if err != nil {
		return err
	}
	ooms, _, err := oomsOf(s, h)
	if err != nil {
		return fail(exitInput, "%s: %w", quoteArg(arg), err)
	}
	for i := range ooms {
		o := &ooms[i]
		p.Facts = append(p.Facts,
			page.Fact{Name: fmt.Sprintf("Out of memory at event %d%s", o.Event, of),
				Value: fmt.Sprintf("%s asked for %s", place(o.Where), report.Size(o.Tried))},
			page.Fact{Name: "Cause: " + strings.ReplaceAll(o.Cause, "-", " "), Value: o.Why})
		held := &report.Grid{Columns: []report.Column{{Title: "Size", Right: true}, {Title: "Allocations", Right: true},
			{Title: "Phase"}, {Title: "Held by", File: true}}}
		for _, x := range o.Live {
			held.Rows = append(held.Rows, []string{fmt.Sprintf("%d B", x.Bytes), strconv.Itoa(x.Count), x.Phase, x.Site})
		}
		tried := &report.Grid{Columns: []report.Column{{Title: "Helps"}, {Title: "Tried by replay", File: true},
			{Title: "Settings", File: true}}}
		if o.Untried != "" {
			tried.Rows = append(tried.Rows, []string{"not tried", o.Untried, s.AllocConf})
		}
		for _, r := range o.Remedies {
			tried.Rows = append(tried.Rows, []string{r.Helps, r.What, r.Conf})
		}
		p.Tables = append(p.Tables, page.Table{Title: fmt.Sprintf("In use when memory ran out at event %d%s", o.Event, of),
			Grid: held},
			page.Table{Title: fmt.Sprintf("What would have helped at event %d%s", o.Event, of), Grid: tried})
	}
	return nil
}
