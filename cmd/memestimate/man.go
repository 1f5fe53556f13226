package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand prints the manual page, made from the same texts as --help.
func manCommand(e *env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "man",
		Short: "Print the manual page",
		Long: `Print the manual page, to be read with man(1):

  memestimate man --output memestimate.1 && man ./memestimate.1`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := output{format: "man", formats: []string{"man"}, file: file}
			return o.write(e, func(w io.Writer) error {
				_, err := io.WriteString(w, manual(cmd.Root()))
				return err
			})
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "write the page to this file, whole or not at all")
	return cmd
}

// manual writes the page of a program in the language of man(7). It has no date, so that the same
// program has the same page. cobra/doc writes a page for each command, of which there are dozens, through a converter
// from Markdown; this is one page for all.
func manual(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"%s\" \"User Commands\"\n", strings.ToUpper(root.Name()), root.Name())
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n", root.Name(), roff(root.Short))
	commands := visible(root)
	for _, c := range append([]*cobra.Command{root}, commands...) {
		fmt.Fprintf(&b, ".B %s\n.br\n", roff(c.UseLine()))
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s.SH OPTIONS\n", paragraphs(root.Long))
	flags(&b, root.Flags())
	b.WriteString(".SH COMMANDS\n")
	for _, c := range commands {
		fmt.Fprintf(&b, ".SS %s\n", roff(c.CommandPath()))
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		b.WriteString(paragraphs(text))
		if c.Example != "" {
			fmt.Fprintf(&b, ".PP\n.nf\n%s\n.fi\n", roff(c.Example))
		}
		flags(&b, c.Flags())
	}
	return b.String()
}

// visible returns the commands below c that --help lists, those with commands of their own before these.
func visible(c *cobra.Command) (out []*cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "completion" {
			out = append(append(out, sub), visible(sub)...)
		}
	}
	return out
}

func flags(b *strings.Builder, fs *pflag.FlagSet) {
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		text := `\fB\-\-` + roff(f.Name) + `\fR`
		if f.Shorthand != "" {
			text = `\fB\-` + f.Shorthand + `\fR, ` + text
		}
		if name != "" {
			text += ` \fI` + roff(name) + `\fR`
		}
		fmt.Fprintf(b, ".TP\n%s\n%s\n", text, roff(strings.ReplaceAll(usage, "\n", " ")))
	})
}

// paragraphs keeps blank lines, and the line breaks of lines that are indented.
func paragraphs(text string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(part, " ") {
			fmt.Fprintf(&b, ".PP\n.nf\n%s\n.fi\n", roff(part))
			continue
		}
		fmt.Fprintf(&b, ".PP\n%s\n", roff(part))
	}
	return b.String()
}

// roff escapes what man(7) takes for its own: backslashes, hyphens, and a dot or quote that begins a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
