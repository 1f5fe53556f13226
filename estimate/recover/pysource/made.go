package pysource

import (
	"regexp"
	"strings"
	"sync"
)

// madeThere is a module of torch.nn that a line makes and calls at once, with its arguments: nn.ReLU(True)(x).
var madeThere = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(?:ReLU6?|LeakyReLU|ELU|SELU|CELU|SiLU|Hardswish|Hardsigmoid|Hardtanh|Mish)` +
		`\(([^()]*)\)\(`)
})

// MadeInPlace reports whether the module whose own line a stack is at writes over its argument, where the line that
// calls it makes it as well: nn.LeakyReLU(0.2, inplace=True)(x) does, nn.ReLU()(x) does not. known is false where no
// line says it, or one by a variable.
func (s *Sources) MadeInPlace(stack int32) (yes, known bool) {
	if s.Modules(stack) == 0 || s.Frames[stack-1].Up == 0 {
		return false, false
	}
	made := madeThere().FindAllStringSubmatch(s.Frames[s.Frames[stack-1].Up-1].Source, -1)
	if len(made) != 1 {
		return false, false
	}
	args := strings.Split(made[0][1], ",")
	last := strings.ReplaceAll(args[len(args)-1], " ", "")
	switch {
	case last == "True" || last == "inplace=True":
		return true, true
	case strings.Trim(last, "-.e0123456789") == "" || last == "False" || last == "inplace=False":
		return false, true
	}
	return false, false
}
