package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

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

// release and commit are what a release is built from: see .goreleaser.yaml.
var release, commit string

// shortVersion is versionLine without the machine.
func shortVersion() string {
	name, rest, _ := strings.Cut(versionLine(), " ")
	version, _, _ := strings.Cut(rest, " ")
	return name + " " + version
}

// versionLine names the program's version, the commit it was built from when Go
// recorded it, and the Go toolchain.
func versionLine() string {
	version, from, changed := release, "", ""
	if release != "" && commit != "" {
		from = " " + commit
	}
	if info, ok := debug.ReadBuildInfo(); ok && release == "" {
		version = info.Main.Version
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				from = " " + s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = "+changes"
			}
		}
	}
	return fmt.Sprintf("memestimate %s%s%s %s %s/%s", cmp.Or(version, "(devel)"), from, changed, runtime.Version(),
		runtime.GOOS, runtime.GOARCH)
}
