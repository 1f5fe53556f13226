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
	floatRMSNorm = &program.GuessRow{Name: "float-rms-norm",
		Takes:  "a root mean square norm in steps taken for one that computes in float32",
		Source: "transformers LlamaRMSNorm, GemmaRMSNorm, T5LayerNorm"}
	CausalFlag = &program.GuessRow{Name: "causal-flag",
		Takes: "a mask of positions alone taken for is_causal=True, or none", Source: "transformers masking_utils.py"}
	biasTableCopy = &program.GuessRow{Name: "bias-table-copy",
		Takes:  "a looked-up table with the heads in front taken for a contiguous copy of it",
		Source: "torchvision/models/swin_transformer.py"}
	mergedCalls = &program.GuessRow{Name: "merged-calls",
		Takes: "a result that turns of a loop, modules beside each other or two lines of a norm read taken for one that each " +
			"of them computed, as exporters make equal calls one",
		Source: "torch/onnx/utils.py"}
	fastPath = &program.GuessRow{Name: "fast-path",
		Takes:  "self-attention with the batch in front, in inference, taken for nn.MultiheadAttention's fast path",
		Source: "torch/nn/modules/activation.py"}
)

// Guesses are all that recovery makes.
var Guesses = []*program.GuessRow{activationInPlace, residualInPlace, selfGated, floatRMSNorm,
	CausalFlag, biasTableCopy, mergedCalls, fastPath}

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
