package main

import (
	"os"
	"slices"
	"strings"

	"github.com/hbollon/go-edlib"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/spelling"
)

// didYouMean asks whether one of the names was meant; "" when there are none.
func didYouMean(names ...string) string {
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "" })
	if len(names) == 0 {
		return ""
	}
	last := len(names) - 1
	if last > 0 {
		return "did you mean " + strings.Join(names[:last], ", ") + " or " + names[last] + "?"
	}
	return "did you mean " + names[0] + "?"
}

// unknownName says which names there are; the hint has those that begin with what was typed, or else the nearest one.
func unknownName(typed string, names []string) error {
	var near []string
	for _, n := range names {
		if len(typed) > 1 && strings.HasPrefix(n, typed) {
			near = append(near, n)
		}
	}
	if len(near) == 0 || len(near) > 4 {
		near = []string{nearest(typed, names)}
	}
	return fail(exitInput, "want %s", strings.Join(names, ", ")).withHint("%s", didYouMean(near...))
}

// nearestFlag returns the flag of a command that was meant, with its hyphens, or "".
func nearestFlag(cmd *cobra.Command, typed string) string {
	names := flagNames(cmd.Flags())
	if n := nearest(typed, names); n != "" {
		return "--" + n
	}
	if n := spelling.Key(nearest(typed, spelling.OtherNames())); slices.Contains(names, n) { // --batchsizes
		return "--" + n
	}
	return ""
}

func flagNames(fs *pflag.FlagSet) (names []string) {
	fs.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// mistyped returns the command that was meant by the only argument, where it is nearer than any model, or "".
func mistyped(root *cobra.Command, arg string) string {
	in := resolve(arg)
	if in.file == "" || strings.ContainsAny(arg, `/\.`) {
		return ""
	}
	if _, err := os.Stat(arg); err == nil {
		return ""
	}
	near := nearestCommand(root, arg)
	if model := nearest(arg, models.Names()); near == "" || model != "" && edits(arg, model) <= edits(arg, near) {
		return ""
	}
	return near
}

// nearestCommand returns the subcommand of a command that was meant, or "".
func nearestCommand(cmd *cobra.Command, typed string) string {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return nearest(typed, names)
}

// nearest returns the name that is a few edits away from what was typed, one in four
// characters at most, or that it begins with, or "".
func nearest(typed string, names []string) string {
	best, distance := "", len(typed)/4+1
	for _, n := range names {
		if d := edits(typed, n); d < distance {
			best, distance = n, d
		}
	}
	for _, n := range names {
		if best == "" && len(typed) > 2 && strings.HasPrefix(n, typed) {
			best = n
		}
	}
	return best
}

// edits is how many letters are to be put in, taken out, replaced or swapped with the next one between two
// short strings.
func edits(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	return edlib.OSADamerauLevenshteinDistance(a, b)
}
