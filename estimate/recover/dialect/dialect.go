// Package dialect lists what recovery guesses about how libraries write things: places where several programs are
// exported as one and the same graph. Each guess is a row that can be switched off, and every choice that it makes is
// written down in the Program. What is certain, exporters' spellings of one operator, is no row. An unproven guess is
// not made: the estimate says where it could be, and its upper bound has room for it.
package dialect

// A Row is a guess.
type Row struct {
	Name      string // by which it is switched off and reported: "residual-in-place"
	Takes     string // what is taken
	For       string // and for what
	Libraries string // that write it so
	Source    string // where that can be read; "" where it is how most code is written
	Unproven  bool   // fewer than two independent models bear it out, or more speak against it: see docs/guesses.md
}

// The rows.
var (
	ActivationInPlace = &Row{"activation-in-place", "an activation that alone reads a convolution's or a norm's result",
		"one with inplace=True", "torchvision, timm", "torchvision/models/resnet.py", false}
	FunctionOfModule = &Row{"activation-of-module", "an activation that a module calls on its own convolution",
		"F.relu, which is not in place", "hand-written", "", false}
	LeakyOfSequential = &Row{"leaky-of-sequential", "a LeakyReLU behind a batch norm in a Sequential",
		"nn.LeakyReLU(slope), which is not in place", "hand-written", "torch/nn/modules/activation.py", false}
	ResidualInPlace = &Row{"residual-in-place", "the sum at the end of a block of convolutions", "out += identity",
		"torchvision, timm", "torchvision/models/resnet.py", false}
	SelfGated = &Row{"self-gated", "x times its own sigmoid, or the tanh of its softplus",
		"F.silu or F.mish, which keep x alone", "torch.nn", "torch/nn/functional.py", false}
	SquaredReLU = &Row{"squared-relu", "a rectified tensor times itself", "torch.square(F.relu(x))",
		"transformers, RWKV", "transformers/activations.py ReLUSquaredActivation", true}
	MaxWithPlaces = &Row{"max-with-places", "the largest of one dimension",
		"x.max(dim), which keeps the places", "torchvision, PointNets", "", false}
	PromotedMask = &Row{"promoted-mask", "a mask that is made floats right before the one product that reads it",
		"x * mask, which takes it as it is", "hand-written", "", true}
	TypedSoftmax = &Row{"typed-softmax", "a softmax with one cast behind it",
		"softmax(x, dtype=x.dtype), which autocast leaves in its type", "hand-written", "", true}
	ZerosLike = &Row{"zeros-like", "a constant of another tensor's shape", "zeros_like, which has its type",
		"transformers", "", false}
	FunctionGELU = &Row{"gelu-function", "Megatron's GELU in steps", "a torch.autograd.Function", "BLOOM",
		"transformers/models/bloom/modeling_bloom.py BloomGelu", true}
	SplitDifference = &Row{"split-difference", "one difference in a norm over channels", "two that the exporter merged",
		"transformers, segment-anything", "ConvNextLayerNorm", false}
	FloatRMSNorm = &Row{"float-rms-norm", "a root mean square norm in steps", "one that computes in float32",
		"transformers", "LlamaRMSNorm, GemmaRMSNorm, T5LayerNorm", false}
	CentredNorm = &Row{"centred-norm", "a layer norm without bias in steps", "one that computes in float32",
		"transformers", "CohereLayerNorm", true}
	LinearAttention = &Row{"linear-attention", "attention without a softmax", "one that computes in float32", "timm",
		"efficientvit_mit.py LiteMLA", true}
	FloatAttention = &Row{"float-attention", "causal attention in steps without a scale before",
		"one of float32 queries and keys", "transformers", "GPTJAttention, CodeGenAttention, GPTNeoSelfAttention", false}
	HeadBias = &Row{"head-bias", "a constant matrix for every head that is added to scores",
		"a trained table that was looked up", "torchvision, timm, transformers", "SwinTransformerBlock", true}
	BiasTableCopy = &Row{"bias-table-copy", "a looked-up table with the heads in front", "a contiguous copy of it",
		"torchvision, timm, transformers", "torchvision/models/swin_transformer.py", false}
	MapOfTokens = &Row{"map-of-tokens", "tokens that become a picture", "a contiguous copy of them",
		"transformers, timm", "SegformerStage", false}
	ClipOfTokens = &Row{"clip-of-tokens", "tokens that become a video", "a contiguous copy of them", "torchvision",
		"torchvision/models/video/mvit.py Pool", true}
	TiedHead = &Row{"tied-head", "a last layer of the transposed sizes of a table of words", "that table itself",
		"transformers", "PretrainedConfig.tie_word_embeddings", false}
	CausalFlag = &Row{"causal-flag", "a mask of positions alone", "is_causal=True, or none", "transformers",
		"masking_utils.py", false}
	NoPadding = &Row{"no-padding", "a mask of positions and of what an input says of each token",
		"none, as nothing is padded", "transformers", "masking_utils.py", true}
	TurnedHeads = &Row{"turned-heads", "queries, keys and values that are all turned", "contiguous copies of them",
		"hand-written", "", true}
	DividedNoise = &Row{"divided-noise", "x divided and times floored noise", "drop_path, which keeps the quotient",
		"transformers", "drop_path", false}
	MergedLoop = &Row{"merged-loop", "a product that all turns of a loop read", "one that each turn computed",
		"hand-written", "", false}
	MergedModules = &Row{"merged-modules", "a result that a module and one beside it read",
		"one that each of them computed", "NASNet, Grad-TTS", "", false}
	FastPath = &Row{"fast-path", "self-attention with the batch in front, in inference",
		"nn.MultiheadAttention's fast path", "torch.nn", "torch/nn/modules/activation.py", false}
	Dropout = &Row{"dropout", "a copy that the optimiser of torch.onnx.export dropped", "dropout that drops something",
		"transformers, torch.nn", "torch/nn/modules/dropout.py", false}
	DropoutOfTokens = &Row{"dropout-of-tokens",
		"a copy that the optimiser of torch.onnx.export dropped from a network of image patches",
		"dropout that drops something, instead of nothing", "", "timm/models/vision_transformer.py proj_drop=0.", true}
	EncoderLayer = &Row{"encoder-layer", "a layer with the names of nn.TransformerEncoderLayer",
		"its fast path, which works in place", "torch.nn", "torch/nn/modules/transformer.py", false}
)

// Rows are all of them.
var Rows = []*Row{
	ActivationInPlace, FunctionOfModule, LeakyOfSequential, ResidualInPlace, SelfGated, SquaredReLU, MaxWithPlaces,
	PromotedMask, TypedSoftmax, ZerosLike, FunctionGELU, SplitDifference,
	FloatRMSNorm, CentredNorm, LinearAttention, FloatAttention, HeadBias, BiasTableCopy, MapOfTokens, ClipOfTokens,
	TiedHead, CausalFlag, NoPadding,
	TurnedHeads, DividedNoise, MergedLoop, MergedModules, FastPath, EncoderLayer, Dropout, DropoutOfTokens,
}
