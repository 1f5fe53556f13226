package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/budget"
	"github.com/memestimate/memestimate/report"
)

// checkSchema names the JSON form of a check.
const checkSchema = "memestimate-check/1"

// A checking is the flags that say which budget file to hold models against.
type checking struct {
	config   string
	base     string
	annotate bool
}

func (c *checking) flags(fs *pflag.FlagSet) {
	fs.StringVarP(&c.config, "config", "c", budget.Name, "the budget file")
	fs.StringVar(&c.base, "base", "", "the git revision that growth is measured from, in place of the one in the file")
	fs.BoolVar(&c.annotate, "annotate", false, "also write GitHub's annotations on the budget file, to stderr")
}

// checkCommand holds the models of a repository against its budget file.
func checkCommand(e *env) *cobra.Command {
	var c checking
	var o output
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Hold the models of a repository against their budgets",
		Long: `Estimate all models that memestimate.yaml names, each with the settings it gives, and hold them
against its limits. Exit code 1 when one is over, and a line on stderr for each that is.`,
		Example: `  memestimate check
  memestimate check --base origin/main --format markdown`,
		Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			if err := o.check(fileSource(c.config)); err != nil {
				return err
			}
			f, all, err := c.run(e, false, &o)
			if err != nil {
				return c.told(e, err)
			}
			err = o.write(e, func(w io.Writer) error {
				switch o.format {
				case "json":
					return checkJSON(w, all)
				case "markdown":
					return checkMarkdown(w, all, report.MarkdownLimit)
				}
				return o.grid(w, e, checkGrid(all, o.format == "csv"))
			})
			if err != nil {
				return err
			}
			return c.verdict(e, f, all)
		},
	}
	c.flags(cmd.Flags())
	o.flags(cmd.Flags(), "text", "markdown", "csv", "json")
	return cmd
}

// run reads the budget file and estimates its models. With compare all of them are compared with the base,
// else only where a limit needs it. The output may not be one of them.
func (c *checking) run(e *env, compare bool, o *output) (*budget.File, []*checked, error) {
	f, err := readBudget(c.config)
	if err != nil {
		return nil, nil, err
	}
	all, err := findModels(f)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range all {
		if err := notRead("output", o.file, m.in); err != nil {
			return nil, nil, err
		}
	}
	for i := range f.Models {
		compare = compare || f.Models[i].Limits.Growth != nil
	}
	var b *baseline
	if compare {
		rev := f.Base
		if c.base != "" {
			rev = c.base
		}
		if rev == "" {
			rev = "HEAD"
		}
		if b, err = newBaseline(filepath.Dir(f.Path), rev); err != nil {
			return nil, nil, err
		}
	}
	checkAll(e, f, all, b)
	return f, all, nil
}

// told annotates an error about the budget file before it is told.
func (c *checking) told(e *env, err error) error {
	var at *budget.Error
	if c.annotate && errors.As(err, &at) {
		annotate(e.stderr, at.File, at.Line, at.Text)
	}
	return err
}

// verdict tells on stderr what is over and what could not be estimated, and is the error of
// the worst of it.
func (c *checking) verdict(e *env, f *budget.File, all []*checked) error {
	code := exitOK
	for _, m := range all {
		for _, x := range m.cases {
			for _, l := range x.lines {
				if !l.Over {
					continue
				}
				code = max(code, exitNo)
				text := overText(l)
				fmt.Fprintf(e.stderr, "memestimate: %s:%d: %s\n", quoteArg(f.Path), l.Place, text)
				if c.annotate {
					annotate(e.stderr, f.Path, l.Place, text)
				}
			}
		}
		if m.err != nil {
			code = max(code, exitInput, tell(e.stderr, m.err)) // a size that is not given is the file's fault, not the command line's
			if c.annotate {
				annotate(e.stderr, f.Path, m.entry.Line, oneLine(m.err.Error()))
			}
		}
	}
	if code == exitOK {
		return nil
	}
	return &exitError{code: code}
}

// overText says what is over, without its place.
func overText(l budget.Line) string {
	text := quoteArg(l.Model)
	if l.Settings != "" {
		text += " (" + l.Settings + ")"
	}
	text += fmt.Sprintf(": %s %s", report.TotalName(l.Total), report.Size(l.Value))
	if l.Before != nil && *l.Before != l.Value {
		text += fmt.Sprintf(" after %s", report.Size(*l.Before))
	}
	text += ", over " + l.LimitText
	if l.Note != "" {
		text += "; " + l.Note
	}
	return text
}

// annotate writes an annotation for GitHub's runner, which takes it from the log.
func annotate(w io.Writer, file string, line int, text string) {
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	fmt.Fprintf(w, "::error file=%s,line=%d,title=memestimate::%s\n", property.Replace(filepath.ToSlash(file)), max(line, 1), message.Replace(text))
}

// checkJSON writes the lines of all models, and the errors of those that have none.
func checkJSON(w io.Writer, all []*checked) error {
	type failure struct {
		Model string `json:"model"`
		Error string `json:"error"`
	}
	out := struct {
		Schema string        `json:"schema"`
		Over   int           `json:"over"`
		Lines  []budget.Line `json:"lines"`
		Errors []failure     `json:"errors"`
	}{checkSchema, 0, []budget.Line{}, []failure{}}
	for _, c := range all {
		for _, x := range c.cases {
			for _, l := range x.lines {
				out.Lines = append(out.Lines, l)
				if l.Over {
					out.Over++
				}
			}
		}
		if c.err != nil {
			out.Errors = append(out.Errors, failure{c.name, oneLine(c.err.Error())})
		}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}
