package recover

import "github.com/memestimate/memestimate/estimate/program"

// What recovery guesses about how libraries write things. What is certain, exporters' spellings of one operator, is no
// guess.
var (
	activationInPlace = &program.GuessRow{Name: "activation-in-place",
		Takes:  "an activation that alone reads a convolution's or a norm's result taken for one with inplace=True",
		Source: "torchvision/models/resnet.py"}
	residualInPlace = &program.GuessRow{Name: "residual-in-place",
		Takes:  "the sum at the end of a block of convolutions taken for out += identity",
		Source: "torchvision/models/resnet.py"}
	selfGated = &program.GuessRow{Name: "self-gated",
		Takes:  "x times its own sigmoid, or the tanh of its softplus, taken for F.silu or F.mish, which keep x alone",
		Source: "torch/nn/functional.py"}
	splitDifference = &program.GuessRow{Name: "split-difference",
		Takes:  "one difference in a norm over channels taken for two that the exporter merged",
		Source: "transformers ConvNextLayerNorm"}
	floatRMSNorm = &program.GuessRow{Name: "float-rms-norm",
		Takes:  "a root mean square norm in steps taken for one that computes in float32",
		Source: "transformers LlamaRMSNorm, GemmaRMSNorm, T5LayerNorm"}
	CausalFlag = &program.GuessRow{Name: "causal-flag",
		Takes: "a mask of positions alone taken for is_causal=True, or none", Source: "transformers masking_utils.py"}
	biasTableCopy = &program.GuessRow{Name: "bias-table-copy",
		Takes:  "a looked-up table with the heads in front taken for a contiguous copy of it",
		Source: "torchvision/models/swin_transformer.py"}
	mergedLoop = &program.GuessRow{Name: "merged-loop",
		Takes: "a product that all turns of a loop read taken for one that each turn computed"}
	mergedModules = &program.GuessRow{Name: "merged-modules",
		Takes: "a result that a module and one beside it read taken for one that each of them computed"}
	fastPath = &program.GuessRow{Name: "fast-path",
		Takes:  "self-attention with the batch in front, in inference, taken for nn.MultiheadAttention's fast path",
		Source: "torch/nn/modules/activation.py"}
)

// Guesses are all that recovery makes.
var Guesses = []*program.GuessRow{activationInPlace, residualInPlace, selfGated, splitDifference, floatRMSNorm,
	CausalFlag, biasTableCopy, mergedLoop, mergedModules, fastPath}

// takes reports whether a guess may be made.
func (b *recovery) takes(row *program.GuessRow) bool { return !b.src.Without[row.Name] }

// guess makes a guess about the node at hand, and reports false where it is switched off.
func (b *recovery) guess(row *program.GuessRow) bool {
	if !b.takes(row) {
		return false
	}
	b.prog.Guesses = append(b.prog.Guesses, program.Guess{Row: row.Name, Origin: int32(b.at)})
	return true
}
