package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/report"
)

// modelsCommand lists the built-in models.
func modelsCommand(e *env) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List the built-in models",
		Long: `List the built-in models: graphs without weights. A name alone stands for the first of its forms,
NAME:FORM for another one. Where the graph allows it, --dim gives the input another height and
width. NOTICE in the models folder has their licences in full.`,
		Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			if err := o.check(); err != nil {
				return err
			}
			var list []models.Model
			for _, name := range models.Names() {
				m, err := models.Info(name)
				if err != nil {
					return err
				}
				list = append(list, m)
			}
			return o.answer(e, modelList{modelsForm, list}, func() *report.Grid {
				g := &report.Grid{Columns: []report.Column{{Title: "model"}, {Title: "input"}, {Title: "--dim"},
					{Title: "forms", Spare: 1}, {Title: "licence", Spare: 3}, {Title: "source", Spare: 2}}}
				for _, m := range list {
					g.Rows = append(g.Rows, []string{m.Name, m.Input, strings.Join(m.Sizes, " "), strings.Join(m.Forms, " "),
						m.Licence, m.Source})
				}
				return g
			})
		},
	}
	o.flags(cmd.Flags(), "text", "markdown", "csv", "json")
	return cmd
}
