package main

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/report"
)

// opsCommand lists the operators whose shapes are modelled.
func opsCommand(e *env) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:   "ops [OPERATOR]",
		Short: "List the operators that are modelled",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("ops: unexpected argument %q, wanted only OPERATOR", args[1]).withHint("usage: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			list := shape.Operators()
			if len(args) == 1 {
				list = named(list, args[0])
				if len(list) == 0 {
					return fail(exitNo, "operator %q is not modelled", args[0]).withHint("%s", didYouMean(nearestOperator(args[0])))
				}
			}
			return o.write(e, func(w io.Writer) error {
				if o.format == "json" {
					return writeOperators(w, list)
				}
				g := &report.Grid{Columns: []report.Column{{Title: "domain"}, {Title: "operator"}, {Title: "from version"}}}
				for _, op := range list {
					g.Rows = append(g.Rows, []string{domainName(op.Domain), op.Name, versions(op.Since)})
				}
				return o.grid(w, e, g)
			})
		},
	}
	o.flags(cmd.Flags(), "text", "markdown", "csv", "json")
	return cmd
}

func named(list []shape.Operator, name string) (out []shape.Operator) {
	for _, op := range list {
		if strings.EqualFold(op.Name, name) {
			out = append(out, op)
		}
	}
	return out
}

// nearestOperator returns the operator that was meant, whatever its case, or "".
func nearestOperator(typed string) string {
	var names, lower []string
	for _, op := range shape.Operators() {
		names, lower = append(names, op.Name), append(lower, strings.ToLower(op.Name))
	}
	if i := slices.Index(lower, nearest(strings.ToLower(typed), lower)); i >= 0 {
		return names[i]
	}
	return ""
}

func domainName(domain string) string {
	if domain == "" {
		return "ai.onnx"
	}
	return domain
}

func versions(since []int64) string {
	texts := make([]string, len(since))
	for i, v := range since {
		texts[i] = strconv.FormatInt(v, 10)
	}
	return strings.Join(texts, ", ")
}

func writeOperators(w io.Writer, list []shape.Operator) error {
	out := make([]operatorJSON, len(list))
	for i, op := range list {
		out[i] = operatorJSON{domainName(op.Domain), op.Name, op.Since}
	}
	return encodeJSON(w, operatorList{opsForm, out})
}
