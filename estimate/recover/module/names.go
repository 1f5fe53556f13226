package module

import "strings"

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
	// transformers: GPT-J's table of sinusoids; as a module, its table is embed_positions.weight
	"embed_positions": true,
	"causal_mask":     true,
	"mask":            true,
	"pe":              true, // PyTorch's tutorial: sinusoidal positions
	"pixel_mean":      true, // detectron2, segment-anything
	"pixel_std":       true,
}

// isBufferName reports whether a module that names a tensor so does not train it. transformers' rotary embeddings
// name theirs inv_freq and original_inv_freq, and with several kinds of layers sliding_attention_inv_freq and the
// like.
func isBufferName(name string) bool {
	return bufferTails[name[strings.LastIndexByte(name, '.')+1:]] || strings.HasSuffix(name, "inv_freq")
}

// folded are the names, without a counter behind them, of what torch.export's
// exporter leaves where it evaluated a piece of the graph: the ATen operator that
// made the value. No module names its parameters so.
var folded = map[string]bool{
	"val": true, "const": true, "lifted_tensor": true, "scalar_tensor_default": true, "max_val_cast": true,
	"min_val_cast": true, "unsqueeze": true, "squeeze": true, "transpose": true, "permute": true, "view": true,
	"reshape": true, "expand": true,
	"slice": true, "select": true, "index": true, "cat": true, "stack": true, "clone": true, "to": true, "_to_copy": true,
	"full": true, "full_like": true, "zeros": true, "zeros_like": true, "ones": true, "ones_like": true, "new_ones": true,
	"new_zeros": true,
	"arange":    true, "linspace": true, "add": true, "sub": true, "mul": true, "div": true, "neg": true, "pow": true,
	"exp": true, "log": true,
	"cos": true, "sin": true, "sqrt": true, "rsqrt": true, "reciprocal": true, "triu": true, "tril": true, "where": true,
	"masked_fill": true,
	"ge":          true, "gt": true, "le": true, "lt": true, "eq": true, "ne": true, "logical_not": true,
	"logical_and": true, "bitwise_and": true,
	"repeat": true, "flatten": true, "outer": true, "matmul": true, "bmm": true, "polar": true,
}
