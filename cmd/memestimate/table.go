package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/report"
)

// tableCommand prints the per-layer table alone.
func tableCommand(e *env) *cobra.Command {
	var s settings
	var o output
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
			r, err := s.estimate(e, cmd.CommandPath(), in)
			if err != nil {
				return err
			}
			return o.write(e, func(w io.Writer) error {
				if o.format == "json" {
					return report.LayersJSON(w, r)
				}
				return o.grid(w, e, report.Layers(r, o.format == "csv"))
			})
		},
	}
	s.flags(cmd.Flags())
	o.flags(cmd.Flags(), "text", "markdown", "csv", "json")
	return cmd
}
