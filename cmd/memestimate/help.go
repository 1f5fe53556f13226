package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/report"
)

// helpWidth is how wide help is where nothing says how wide the terminal is.
const helpWidth = 80

// A group is flags, or commands, that help lists under one title.
type group struct {
	title string
	names []string
}

// flagGroups are the groups of flags in the order of help. Those of a command alone come first, without a title.
var flagGroups = sync.OnceValue(func() []group {
	s := &settings{}
	fit := []string{"gpu", "budget", "what-if", "ways", "memory-limit", "confidence"}
	output := []string{"format", "output", "full", "color", "stats", "snapshot", "strict"}
	run := slices.DeleteFunc(flagsOf(0, append(s.modelRows(), s.run.rows()...)),
		func(name string) bool { return slices.Contains(fit, name) || slices.Contains(output, name) })
	return []group{
		{"The run", run},
		{"Does it fit", fit},
		{"Several GPUs", flagsOf(0, s.run.parallelRows())},
		{"Output", output},
		{"This machine's GPUs", []string{"count", "margin", "min-free", "min-total", "max-utilization",
			"policy", "exclude", "gpu-type", "share", "nvml", "state-dir"}},
	}
})

// firstFlags are the flags that people use first, each in a line of help. All others of the main command, and those of
// a run, are in --help-all.
var firstFlags = map[string]string{
	"batch":     "size of the batch",
	"dim":       "size of another open dimension, such as sequence=512",
	"precision": "fp32 (default), amp-bf16, amp-fp16, bf16, fp16",
	"optimizer": "adamw (default), adam, sgd, sgdm, adafactor, ...",
	"mode":      "train (default) or infer",
	"gpu":       "does it fit this one? 4090, a100-80gb, ... or auto",
	"budget":    "does it fit this size? such as 24GiB",
	"what-if":   "try other precisions, optimizers, layouts, batches",
	"format":    "", // its own text, without the default
	"output":    "write the result to this `FILE`",
}

// commandGroups are the commands in the order of help. One that is in none comes last.
var commandGroups = []group{
	{"About a model", []string{"table", "fit", "models", "gpus"}},
	{"Pull requests", []string{"diff", "check", "comment"}},
	{"What was measured", []string{"explain", "snapshot", "compare"}},
	{"GPUs", []string{"devices", "run", "trace"}},
	{"Clusters", []string{"slurm", "k8s", "where"}},
}

// printHelp writes the help of a command in lines that the terminal has room for.
func printHelp(e *env, cmd *cobra.Command) {
	width := max(cmp.Or(columns(e, e.stdout), helpWidth), 40)
	var b strings.Builder
	if isMain(cmd) && !e.helpAll {
		writeFirstScreen(&b, cmd, width)
		io.WriteString(&e.help, report.Fold(b.String(), width))
		return
	}
	b.WriteString(reflow(cmp.Or(cmd.Long, cmd.Short+"."), width))
	fmt.Fprintf(&b, "\nUsage:\n  %s\n", cmd.UseLine())
	if cmd.HasAvailableSubCommands() && !cmd.HasParent() {
		fmt.Fprintf(&b, "  %s COMMAND\n", cmd.CommandPath())
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
	writeCommands(&b, cmd, width)
	left := writeFlags(&b, cmd, e.helpAll, width)
	if left > 0 {
		fmt.Fprintf(&b, "\n%s --help-all has %d flags more, and what each means.\n", cmd.CommandPath(), left)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help tells more about a command.\n", cmd.CommandPath())
	}
	io.WriteString(&e.help, report.Fold(b.String(), width)) // e.help keeps the error
}

// isMain reports whether a command is the one that has all others.
func isMain(cmd *cobra.Command) bool { return !cmd.HasParent() && cmd.Annotations[recordsFirst] == "" }

// recordsFirst is an annotation of the forms of the main command that record before they answer.
const recordsFirst = "records"

// writeFirstScreen writes what somebody new needs, in no more lines than a terminal of 24 shows.
func writeFirstScreen(b *strings.Builder, cmd *cobra.Command, width int) {
	b.WriteString(reflow(cmd.Short+".", width))
	b.WriteString(reflow("Usage: "+cmd.UseLine()+" (script, HF model, ONNX, recording)", width))
	fmt.Fprintf(b, "\n%s\n\n", strings.TrimRight(cmd.Example, "\n"))
	first := pflag.NewFlagSet("", pflag.ContinueOnError)
	first.SortFlags = false
	for _, g := range flagGroups() {
		for _, name := range g.names {
			if f := cmd.Flags().Lookup(name); f != nil {
				addFirst(first, f)
			}
		}
	}
	b.WriteString(first.FlagUsagesWrapped(width))
	var names []string
	for _, g := range commandGroups {
		names = append(names, g.names...)
	}
	b.WriteString("\n" + reflow("Commands: "+strings.Join(names, " "), width))
	b.WriteString("\n" + reflow(cmd.CommandPath()+" --help-all tells the rest, COMMAND --help of a command.", width))
}

// addFirst adds a flag as the first screen has it, if it does.
func addFirst(fs *pflag.FlagSet, f *pflag.Flag) bool {
	brief, known := firstFlags[f.Name]
	if known {
		short := *f
		short.Usage, short.DefValue = cmp.Or(brief, f.Usage), ""
		fs.AddFlag(&short)
	}
	return known
}

// writeCommands lists the commands of a command.
func writeCommands(b *strings.Builder, cmd *cobra.Command, width int) {
	groups, others := []group{}, group{title: "Commands"}
	if isMain(cmd) {
		groups, others.title = commandGroups, "Other commands"
	}
	for _, c := range cmd.Commands() {
		listed := slices.ContainsFunc(groups, func(g group) bool { return slices.Contains(g.names, c.Name()) })
		if c.IsAvailableCommand() && !listed {
			others.names = append(others.names, c.Name())
		}
	}
	if len(others.names) > 0 {
		groups = append(slices.Clip(groups), others)
	}
	for _, g := range groups {
		fmt.Fprintf(b, "\n%s:\n", g.title)
		for _, name := range g.names {
			if c, _, err := cmd.Find([]string{name}); err == nil && c != cmd {
				text := strings.TrimSuffix(reflow(c.Short, max(width-14, 20)), "\n")
				fmt.Fprintf(b, "  %-10s  %s\n", name, strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", 14)))
			}
		}
	}
}

// writeFlags lists the flags of a command by groups: those that people use first, or all. It returns how many it left
// out.
func writeFlags(b *strings.Builder, cmd *cobra.Command, all bool, width int) (left int) {
	all = all || cmd.Annotations[recordsFirst] != "" // whose flags of these names have other defaults
	ofARun := flagsOf(0, (&settings{}).rows())       // which every command about a model has
	own := group{title: "Flags"}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.ContainsFunc(flagGroups(), func(g group) bool { return slices.Contains(g.names, f.Name) }) {
			own.names = append(own.names, f.Name)
		}
	})
	for i, g := range append([]group{own}, flagGroups()...) {
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		fs.SortFlags = false
		for _, name := range g.names {
			f := cmd.Flags().Lookup(name)
			switch {
			case f == nil || f.Hidden || name == "help" || name == "version":
			case all:
				fs.AddFlag(f)
			case addFirst(fs, f):
			case i == 0 || !isMain(cmd) && !slices.Contains(ofARun, name):
				fs.AddFlag(f)
			default:
				left++
			}
		}
		if fs.HasFlags() {
			fmt.Fprintf(b, "\n%s:\n%s", g.title, fs.FlagUsagesWrapped(width))
		}
	}
	return left
}

// reflow breaks paragraphs anew for a width. Lines that are indented stay as they are.
func reflow(text string, width int) string {
	parts := strings.Split(strings.TrimSpace(text), "\n\n")
	for i, part := range parts {
		if !strings.HasPrefix(part, " ") {
			parts[i] = strings.Join(report.Break(strings.Join(strings.Fields(part), " "), width), "\n")
		}
	}
	return strings.Join(parts, "\n\n") + "\n"
}

// helpCommand prints the help of a command. One that there is not is a mistake like others.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) (out []cobra.Completion,
			_ cobra.ShellCompDirective) {
			of, _, err := cmd.Root().Find(args)
			if err == nil && of != nil {
				for _, c := range of.Commands() {
					if c.IsAvailableCommand() && strings.HasPrefix(c.Name(), typed) {
						out = append(out, cobra.CompletionWithDesc(c.Name(), c.Short))
					}
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			of := cmd.Root()
			for _, name := range args {
				next, _, err := of.Find([]string{name})
				if err != nil || next == of || next == nil {
					tells := " --help lists the commands"
					if !of.HasAvailableSubCommands() {
						tells = " has no commands of its own"
					}
					return usagef("help: unknown command %q", strings.Join(args, " ")).withHint("%s",
						cmp.Or(didYouMean(nearestCommand(of, name)), of.CommandPath()+tells))
				}
				of = next
			}
			of.InitDefaultHelpFlag()
			of.InitDefaultVersionFlag()
			return of.Help()
		},
	}
}

// shellsOnly makes the completion command want the name of a shell.
func shellsOnly(completion *cobra.Command) {
	var shells []string
	for _, c := range completion.Commands() {
		shells = append(shells, c.Name())
		c.Args = exactly()
	}
	completion.Use = "completion SHELL"
	completion.Args = cobra.ArbitraryArgs
	completion.RunE = func(cmd *cobra.Command, args []string) error {
		want := strings.Join(shells, ", ")
		if len(args) == 0 {
			return usagef("completion: no shell given, want %s", want).withHint("%s %s --help says how to install it",
				cmd.CommandPath(), shells[0])
		}
		return usagef("completion: unknown shell %q, want %s", args[0], want).withHint("%s",
			cmp.Or(didYouMean(nearest(args[0], shells)), cmd.CommandPath()+" --help tells more"))
	}
}
