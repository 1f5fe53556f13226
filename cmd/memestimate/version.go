package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionCommand prints what this program was built from.
func versionCommand(e *env) *cobra.Command {
	var o output
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of memestimate",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			return o.write(e, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, versionLine())
				return err
			})
		},
	}
}

// release is the version that scripts/release.sh builds.
var release string

// versionLine names the program's version, the commit it was built from when Go
// recorded it, and the Go toolchain.
func versionLine() string {
	version, commit, changed := "(devel)", "", ""
	if release != "" {
		return fmt.Sprintf("memestimate %s %s %s/%s", release, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = " " + s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = "+changes"
			}
		}
	}
	return fmt.Sprintf("memestimate %s%s%s %s %s/%s", version, commit, changed, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
