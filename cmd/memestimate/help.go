package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"
)

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
