package eager

import (
	"fmt"
	"slices"
	"strings"
)

// CheckOptimizer says whether Options.Optimizer takes a name.
func CheckOptimizer(name string) error {
	r := run{opts: &Options{Optimizer: name}}
	_, err := r.newOptimizer(nil)
	return err
}

// CheckLoss says whether Options.Loss takes a name.
func CheckLoss(name string) error {
	if name == "" || slices.Contains(Losses, name) {
		return nil
	}
	return fmt.Errorf("unknown loss %q, want one of %s", name, strings.Join(Losses, ", "))
}
