package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/onnxload"
)

// dropouts are those that module.Restore put back.
type dropouts struct {
	count int
	idle  map[*onnxload.Node]bool // of nothing
}

// chooseDropout decides whether dropout that an export in evaluation mode left as a copy drops something: of what
// probability it was no file says. Where it is of nothing, or nothing trains, it is another name.
func (b *recovery) chooseDropout() {
	var roots []string
	var places module.Places
	for i, n := range b.nodes {
		if n.Op != "Dropout" || !module.IsRestored(n) {
			continue
		}
		if b.dropout.count == 0 {
			b.prog.Restored, roots, b.dropout.idle = true, b.ofTokens(), map[*onnxload.Node]bool{}
		}
		b.dropout.count++
		at := places.Of(n).Module
		b.at = i
		if !b.src.Train || slices.ContainsFunc(roots, func(root string) bool { return isIn(at, root) }) {
			b.dropout.idle[n] = true
		}
	}
}

// ofTokens returns the modules that cut images into patches, by a convolution that steps as far as it is wide, and
// those of which blocks' modules are named as timm names them: most such models have layers for dropout of nothing.
func (b *recovery) ofTokens() (roots []string) {
	var places module.Places
	var proj, fc1 []string
	add := func(list *[]string, at string, is func(string) bool) {
		parts := strings.Split(at, ".")
		if k := slices.IndexFunc(parts, is); k >= 0 {
			at = strings.Join(parts[:k], ".")
		}
		if !slices.Contains(*list, at) && len(*list) < mostRoots {
			*list = append(*list, at)
		}
	}
	block := func(part string) bool { return strings.Trim(part, "0123456789") == "" }
	for _, n := range b.nodes {
		at := places.Of(n).Module
		switch last := at[strings.LastIndexByte(at, '.')+1:]; {
		case last == "qkv":
			add(&roots, at, block)
		case last == "proj":
			add(&proj, at, block)
		case last == "fc1":
			add(&fc1, at, block)
		}
		if n.Op != "Conv" || n.Domain != "" {
			continue
		}
		wide, step := attrInts(n, "kernel_shape"), attrInts(n, "strides")
		if len(wide) > 1 && slices.Equal(wide, step) && slices.Min(wide) >= leastPatch {
			add(&roots, at, func(part string) bool {
				return strings.Contains(part, "patch") || strings.HasPrefix(part, "embed")
			})
		}
	}
	for _, at := range proj {
		if slices.Contains(fc1, at) {
			roots = append(roots, at)
		}
	}
	for i, at := range roots { // "model.encoder.blocks" of model.encoder.blocks.0.attn.qkv: what stands before the blocks
		if k := strings.LastIndexByte(at, '.'); k >= 0 && strings.HasPrefix(at[k+1:], "block") {
			roots[i] = at[:k]
		} else if strings.HasPrefix(at, "block") {
			roots[i] = ""
		}
	}
	return roots
}

// isIn reports whether a module is another one, or in it.
func isIn(at, root string) bool {
	rest, ok := strings.CutPrefix(at, root)
	return ok && (root == "" || rest == "" || rest[0] == '.')
}

// leastPatch is the least width of what vision transformers take for a patch, and mostRoots how many modules are
// remembered that cut patches.
const leastPatch, mostRoots = 4, 64
