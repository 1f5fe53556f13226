package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/report"
)

// nearestColumn returns the column that was meant by the first name that is none, or "".
func nearestColumn(opt report.TableOptions) string {
	for _, name := range opt.Columns {
		if !slices.Contains(report.TableColumns(), name) {
			return nearest(name, report.TableColumns())
		}
	}
	return nearest(opt.Sort, report.SortColumns())
}

// tableCommand prints the per-layer table alone.
func tableCommand(e *env) *cobra.Command {
	var s settings
	var o output
	var opt report.TableOptions
	cmd := &cobra.Command{
		Use:   "table MODEL",
		Short: "Print the table of a model's layers",
		Args:  exactly("MODEL"),

		ValidArgsFunction: completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			in := resolve(args[0])
			if err := o.check(in); err != nil {
				return err
			}
			if opt.Depth < 0 || opt.Top < 0 {
				return usagef("--depth and --top are counts, from 0 on")
			}
			if opt.Columns != nil && len(opt.Columns) == 0 {
				return usagef("--columns: no column is named, want %s", strings.Join(report.TableColumns(), ", "))
			}
			chosen := ""
			for _, name := range []string{"columns", "sort", "depth", "top"} {
				if chosen == "" && cmd.Flags().Changed(name) {
					chosen = name
				}
			}
			if o.format == "json" && chosen != "" {
				return usagef("--%s has no place in --format json, which has all layers whole; want text, markdown or csv", chosen)
			}
			if _, err := report.Table(&estimate.Report{}, opt); err != nil { // before the model is read
				return usagef("%w", err).withHint("%s", didYouMean(nearestColumn(opt)))
			}
			r, err := s.estimate(e, cmd.CommandPath(), in)
			if err != nil {
				return err
			}
			return o.write(e, func(w io.Writer) error {
				if o.format == "json" {
					return encodeJSON(w, tableJSON{tableForm, r.Layers})
				}
				if o.format == "csv" && chosen == "" {
					return o.grid(w, e, report.Layers(r, true)) // all there is
				}
				opt.Exact = o.format == "csv"
				g, err := report.Table(r, opt)
				if err != nil {
					return err
				}
				return o.grid(w, e, g)
			})
		},
	}
	s.flags(cmd.Flags())
	cmd.Flags().StringSliceVar(&opt.Columns, "columns", nil,
		"columns, with commas between: "+strings.Join(report.TableColumns(), ", "))
	cmd.Flags().StringVar(&opt.Sort, "sort", "", "sort by a size, the largest first: "+strings.Join(report.SortColumns(),
		", "))
	cmd.Flags().IntVar(&opt.Depth, "depth", 0, "add up the layers of each module, as many parts of its path deep")
	cmd.Flags().IntVar(&opt.Top, "top", 0, "show this many rows, and add up the others")
	o.flags(cmd.Flags(), "text", "markdown", "csv", "json")
	return cmd
}
