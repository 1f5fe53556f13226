package recover

import (
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
)

// within returns a place without the modules that the stack has not: exporters take the call of an operator of which
// they know none for one of the module before it. A module whose forward is called by that name, layer.forward(x),
// has a frame and no place: its path is that of what it calls, without the last name.
func within(s program.Lines, p *module.Place, stack int32) *module.Place {
	n := s.Modules(stack)
	if n == 0 || p.Around == "" {
		return p
	}
	parts := strings.Count(p.Around, "/") + 1
	if n == parts+2 {
		return between(s, p, stack)
	}
	if n > parts {
		return p
	}
	around, module := 0, 0
	for part := range strings.SplitSeq(p.Around, "/") {
		if n--; n == 0 {
			break
		}
		around, module = around+len(part)+1, module+len(part)
	}
	if module > len(p.Module) {
		return p
	}
	outer := *p
	outer.Around, outer.Module, outer.Class = p.Around[:max(around-1, 0)], p.Module[:module], ""
	outer.Torch = false
	return &outer
}

// between returns a place with the module whose forward is called by that name.
func between(s program.Lines, p *module.Place, stack int32) *module.Place {
	for f := s[stack-1].Forward; f > 0; f = s[f-1].Forward {
		up := s[f-1].Up
		if up == 0 {
			break
		}
		if strings.Contains(s[up-1].Source, ".forward(") {
			begin := 0
			for range s[f-1].Level - 2 {
				begin += strings.IndexByte(p.Around[begin:], '/') + 1
			}
			part, _, _ := strings.Cut(p.Around[begin:], "/")
			if k := strings.LastIndexByte(part, '.'); k > 0 {
				inner := *p
				inner.Around = p.Around[:begin+k] + "/" + p.Around[begin+k:]
				return &inner
			}
			break
		}
		f = up
	}
	return p
}
