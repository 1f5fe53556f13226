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
func nearestColumn(columns []string) string {
	for _, name := range columns {
		if !slices.Contains(report.TableColumns(), name) {
			return nearest(name, report.TableColumns())
		}
	}
	return ""
}

// tableCommand prints the per-layer table alone.
func tableCommand(e *env) *cobra.Command {
	var s settings
	var o output
	var columns []string
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
			if columns != nil && len(columns) == 0 {
				return usagef("--columns: no column is named, want %s", strings.Join(report.TableColumns(), ", "))
			}
			if o.format == "json" && columns != nil {
				return usagef("--columns has no place in --format json, which has all layers whole; want text, markdown or csv")
			}
			if _, err := report.Table(&estimate.Report{}, columns, false); err != nil { // before the model is read
				return usagef("%w", err).withHint("%s", didYouMean(nearestColumn(columns)))
			}
			r, err := s.estimate(e, cmd.CommandPath(), in)
			if err != nil {
				return err
			}
			return o.write(e, func(w io.Writer) error {
				if o.format == "json" {
					return report.JSON(w, tableJSON{tableForm, r.Layers})
				}
				if o.format == "csv" && columns == nil {
					return o.grid(w, e, report.Layers(r, true)) // all there is
				}
				g, err := report.Table(r, columns, o.format == "csv")
				if err != nil {
					return err
				}
				return o.grid(w, e, g)
			})
		},
	}
	s.flags(cmd.Flags())
	cmd.Flags().StringSliceVar(&columns, "columns", nil,
		"columns, with commas between: "+strings.Join(report.TableColumns(), ", "))
	o.flags(cmd.Flags(), "text", "markdown", "csv", "json")
	return cmd
}
