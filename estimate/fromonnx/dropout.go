package fromonnx

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/fromonnx/dialect"
	"github.com/memestimate/memestimate/estimate/module"
	"github.com/memestimate/memestimate/onnxload"
)

// chooseDropout decides whether dropout that an export in evaluation mode left as a copy drops something: of what
// probability it was no file says. Where it is of nothing, or nothing trains, it is another name.
func (b *recovery) chooseDropout() {
	var row *dialect.Row
	for i, n := range b.nodes {
		if n.Op != "Dropout" || !module.IsRestored(n) {
			continue
		}
		if b.prog.Restored = true; !b.src.Train {
			b.idle = true
			return
		}
		if row == nil {
			row = b.dropoutRow()
		}
		b.at = i
		b.idle = !b.guess(row)
	}
}

// dropoutRow is the guess that a model's dropout is.
func (b *recovery) dropoutRow() *dialect.Row {
	if b.isOfTokens() {
		return dialect.DropoutOfTokens
	}
	return dialect.Dropout
}

// isOfTokens reports whether a model cuts images into patches, by convolutions that step as far as they are wide, or
// has modules that are named as timm names those of its blocks: most such models have layers for dropout of nothing.
func (b *recovery) isOfTokens() bool {
	called := func(n *onnxload.Node, module string) bool { // its module is called so, whatever the optimiser made of weights
		return strings.Contains(n.MetaValue("namespace"), module+": ")
	}
	proj, fc1 := false, false
	for _, n := range b.nodes {
		if called(n, ".qkv") {
			return true
		}
		proj, fc1 = proj || called(n, ".proj"), fc1 || called(n, ".fc1")
	}
	if proj && fc1 {
		return true
	}
	for _, n := range b.nodes {
		if n.Op != "Conv" || n.Domain != "" {
			continue
		}
		wide, step := attrInts(n, "kernel_shape"), attrInts(n, "strides")
		if len(wide) > 1 && slices.Equal(wide, step) && slices.Min(wide) >= leastPatch {
			return true
		}
	}
	return false
}

// leastPatch is the least width of what vision transformers take for a patch.
const leastPatch = 4
