package module

import (
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// A slots says what the inputs of one operator are, by position: bit i stands for input i.
type slots struct {
	weights uint32 // tensors that a module trains
	buffers uint32 // tensors that it keeps but does not train: running statistics, quantization scales
}

func in(positions ...uint) (mask uint32) {
	for _, p := range positions {
		mask |= 1 << p
	}
	return mask
}

// slotTable has a row for every operator that is given weights, after the inputs that
// ONNX's Operators.md and ONNX Runtime's ContribOperators.md list. An operator that is
// not here has none: what it reads is data.
var slotTable = map[string]slots{
	"Conv":                  {weights: in(1, 2)},
	"ConvTranspose":         {weights: in(1, 2)},
	"DeformConv":            {weights: in(1, 3)},
	"Gemm":                  {weights: in(0, 1, 2)},
	"MatMul":                {weights: in(0, 1)},
	"Einsum":                {weights: in(0, 1, 2, 3)},
	"PRelu":                 {weights: in(1)},
	"Gather":                {weights: in(0)}, // an embedding
	"LSTM":                  {weights: in(1, 2, 3, 7)},
	"GRU":                   {weights: in(1, 2, 3)},
	"RNN":                   {weights: in(1, 2, 3)},
	"LayerNormalization":    {weights: in(1, 2)},
	"RMSNormalization":      {weights: in(1)},
	"GroupNormalization":    {weights: in(1, 2)},
	"InstanceNormalization": {weights: in(1, 2)},
	"BatchNormalization":    {weights: in(1, 2), buffers: in(3, 4)},

	"MatMulInteger":        {weights: in(0, 1), buffers: in(2, 3)},
	"ConvInteger":          {weights: in(1), buffers: in(2, 3)},
	"QLinearConv":          {weights: in(3, 8), buffers: in(1, 2, 4, 5, 6, 7)},
	"QLinearConvTranspose": {weights: in(3, 8), buffers: in(1, 2, 4, 5, 6, 7)},
	"QLinearMatMul":        {weights: in(0, 3), buffers: in(1, 2, 4, 5, 6, 7)},
	"QuantizeLinear":       {buffers: in(1, 2)},
	"DequantizeLinear":     {weights: in(0), buffers: in(1, 2)},

	// com.microsoft
	"SimplifiedLayerNormalization":     {weights: in(1)},
	"SkipLayerNormalization":           {weights: in(2, 3, 4)},
	"SkipSimplifiedLayerNormalization": {weights: in(2, 3)},
	"EmbedLayerNormalization":          {weights: in(2, 3, 4, 5, 6)},
	"FusedMatMul":                      {weights: in(0, 1)},
	"FusedGemm":                        {weights: in(0, 1, 2)},
	"FusedConv":                        {weights: in(1, 2)},
	"NhwcConv":                         {weights: in(1, 2)},
	"MatMulNBits":                      {weights: in(1, 5), buffers: in(2, 3, 4)},
	"BiasGelu":                         {weights: in(1)},
	"FastGelu":                         {weights: in(1)},
	"QuickGelu":                        {},
}

// bufferTails are the last parts of names by which PyTorch modules register
// tensors that they do not train. Where an operator's input does not tell a
// buffer from a parameter, its name is all there is.
var bufferTails = map[string]bool{
	"running_mean":            true, // torch.nn.BatchNorm
	"running_var":             true,
	"num_batches_tracked":     true,
	"relative_position_index": true, // torchvision, timm: Swin, BEiT
	"relative_coords_table":   true, // Swin V2
	"attn_mask":               true, // timm, open_clip
	"cos_cached":              true,
	"sin_cached":              true,
	"position_ids":            true, // transformers: BERT
	"token_type_ids":          true,
	"masked_bias":             true, // transformers: GPT-2 before 4.36
	"embed_scale":             true, // transformers: Gemma's scaled embeddings
	"embed_positions":         true, // transformers: GPT-J's table of sinusoids; as a module, its table is embed_positions.weight
	"causal_mask":             true,
	"mask":                    true,
	"pe":                      true, // PyTorch's tutorial: sinusoidal positions
	"pixel_mean":              true, // detectron2, segment-anything
	"pixel_std":               true,
}

// isBufferName reports whether a module that names a tensor so does not train it. transformers' rotary embeddings name theirs
// inv_freq and original_inv_freq, and with several kinds of layers sliding_attention_inv_freq and the like.
func isBufferName(name string) bool {
	return bufferTails[name[strings.LastIndexByte(name, '.')+1:]] || strings.HasSuffix(name, "inv_freq")
}

// moves are the operators that only give another view of their first input's
// storage, or rearrange it. Applied to parameters they are the exporter's doing.
var moves = map[string]bool{
	"Identity": true, "Reshape": true, "Flatten": true, "Squeeze": true, "Unsqueeze": true,
	"Transpose": true, "Slice": true, "Split": true, "Expand": true,
	"SplitToSequence": true, "SequenceAt": true, // of a tensor and of its parts
}

// rearranges are operators that on data make a new tensor, yet on parameters alone
// only prepare them for an ONNX operator: the concatenated gates of an LSTM, a
// weight stored in fewer bits.
var rearranges = map[string]bool{
	"Concat": true, "Cast": true, "CastLike": true, "DequantizeLinear": true,
}

// readsOnlyShape are the operators whose results depend on their inputs' shapes
// alone: no data flows through them.
var readsOnlyShape = map[string]bool{
	"Shape": true, "Size": true, "EyeLike": true, "RandomNormalLike": true, "RandomUniformLike": true,
}

// folded are the names, without a counter behind them, of what torch.export's
// exporter leaves where it evaluated a piece of the graph: the ATen operator that
// made the value. No module names its parameters so.
var folded = map[string]bool{
	"val": true, "lifted_tensor": true, "scalar_tensor_default": true, "max_val_cast": true, "min_val_cast": true,
	"unsqueeze": true, "squeeze": true, "transpose": true, "permute": true, "view": true, "reshape": true, "expand": true,
	"slice": true, "select": true, "index": true, "cat": true, "stack": true, "clone": true, "to": true, "_to_copy": true,
	"full": true, "full_like": true, "zeros": true, "zeros_like": true, "ones": true, "ones_like": true, "new_ones": true, "new_zeros": true,
	"arange": true, "linspace": true, "add": true, "sub": true, "mul": true, "div": true, "neg": true, "pow": true, "exp": true, "log": true,
	"cos": true, "sin": true, "sqrt": true, "rsqrt": true, "reciprocal": true, "triu": true, "tril": true, "where": true, "masked_fill": true,
	"ge": true, "gt": true, "le": true, "lt": true, "eq": true, "ne": true, "logical_not": true, "logical_and": true, "bitwise_and": true,
	"repeat": true, "flatten": true, "outer": true, "matmul": true, "bmm": true, "polar": true,
}

// slotsOf returns the slots of a node's operator, which is often that of the node asked about before.
func (a *Analysis) slotsOf(n *onnxload.Node) slots {
	if a.slotsNode == nil || a.slotsNode.Op != n.Op || a.slotsNode.Domain != n.Domain {
		a.slotsNode, a.slots = n, slotsOf(n)
	}
	return a.slots
}

// slotsOf returns the slots of a node's operator.
func slotsOf(n *onnxload.Node) slots {
	if n.Domain == "com.microsoft" && n.Op == "Attention" {
		return slots{weights: in(1, 2)}
	}
	return slotTable[n.Op]
}
