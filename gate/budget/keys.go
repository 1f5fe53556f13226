package budget

// Kinds of the values that a key takes.
type kind string

const (
	text    kind = "text"    // one string
	texts   kind = "texts"   // one string or a list of them
	yesno   kind = "yesno"   // true or false
	number  kind = "number"  // a whole number from 1
	numbers kind = "numbers" // one or a list of them
	sizes   kind = "sizes"   // a mapping of names to whole numbers
	shapes  kind = "shapes"  // a mapping of names to shapes such as 8x3x224x224
	amount  kind = "amount"  // a size with its unit, such as 24GiB
	growth  kind = "growth"  // a share such as 5%, a size with its unit, or 0
	nested  kind = "nested"  // a mapping with keys of its own
	list    kind = "list"    // one such mapping or a list of them
)

// Patterns of values that are more than a list of names. The parser and the JSON Schema have them alike, so they use
// only what regular expressions of Go and of ECMAScript share. Of each unit there are as many digits as 63 bits hold.
const (
	sizePattern = `^([0-9]{1,18} ?[bB]([yY][tT][eE][sS])?|[0-9]{1,15}([.][0-9]{1,9})? ` +
		`?[kK][iI]?[bB]?|[0-9]{1,12}([.][0-9]{1,9})? ?[mM][iI]?[bB]?|` +
		`[0-9]{1,9}([.][0-9]{1,9})? ?[gG][iI]?[bB]?|[0-9]{1,6}([.][0-9]{1,9})? ` +
		`?[tT][iI]?[bB]?|[0-9]{1,3}([.][0-9]{1,9})? ?[pP][iI]?[bB]?)$`
	sharePattern = `^[0-9]{1,6}([.][0-9]{1,6})? ?%$`
	shapePattern = `^(scalar|[0-9]{1,18}(x[0-9]{1,18})*)$`
)

// A key is one key of a budget file. The decoder, the JSON Schema and the table in the documentation are
// all made from these.
type key struct {
	name string
	kind kind
	doc  string
	keys []key    // of nested and list
	enum []string // the only texts, where there are few
	must bool
}

// settingKeys are the settings that a model is estimated with, named as the flags of memestimate are.
var settingKeys = []key{
	{name: "batch", kind: numbers,
		doc: "Size of the batch: the inputs' leading symbolic dimension. Several make several cases."},
	{name: "dim", kind: sizes, doc: "Sizes of symbolic dimensions by name."},
	{name: "input", kind: shapes, doc: "Shapes of inputs by name, such as 8x3x224x224."},
	{name: "mode", kind: texts, enum: []string{"train", "infer"}, doc: "A training step or an inference. train when left out."},
	{name: "precision", kind: texts, enum: []string{"fp32", "amp-bf16", "amp-fp16", "bf16", "fp16"},
		doc: "Element types. fp32 when left out."},
	{name: "optimizer", kind: texts, doc: "Optimizer of torch.optim. adamw when left out."},
	{name: "loss", kind: text, doc: "Criterion, such as cross-entropy, mse, mean or none. auto when left out."},
	{name: "channels-last", kind: yesno, doc: "Model and input in memory format torch.channels_last."},
	{name: "grad-accum", kind: number, doc: "Backward passes for each optimizer step."},
	{name: "clip-grad-norm", kind: yesno, doc: "torch.nn.utils.clip_grad_norm_ before each optimizer step."},
	{name: "zero-grad", kind: text, enum: []string{"none", "zeros"},
		doc: "What zero_grad leaves of gradients. none when left out."},
	{name: "foreach", kind: yesno, doc: "The optimizer works on lists of parameters. true when left out."},
	{name: "grad-scaler", kind: text, enum: []string{"auto", "on", "off"},
		doc: "torch.amp.GradScaler. auto when left out."},
	{name: "drop-output", kind: yesno,
		doc: "The program keeps no variable of the model's output, as in criterion(model(x), y).backward()."},
	{name: "cudnn-benchmark", kind: yesno,
		doc: "torch.backends.cudnn.benchmark: cuDNN searches for the fastest engine of each convolution."},
	{name: "train-only", kind: text, doc: "Only the parameters whose names this regular expression matches train."},
	{name: "freeze", kind: text, doc: "The parameters whose names this regular expression matches do not train."},
	{name: "lora", kind: text, doc: "Adapters as peft makes them, such as r=16,targets=q_proj|v_proj. " +
		"The rest is frozen."},
	{name: "checkpoint", kind: text,
		doc: "Modules under torch.utils.checkpoint: a regular expression for their whole names, or blocks."},
	{name: "checkpoint-reentrant", kind: yesno, doc: "Its use_reentrant=True."},
	{name: "compile", kind: yesno, doc: "torch.compile(model): recordings have it, an ONNX graph does not."},
	{name: "gpus", kind: number, doc: "How many GPUs train together; the figures are one's."},
	{name: "parallel", kind: text, enum: []string{"ddp", "zero1", "zero2", "zero3", "fsdp", "tp", "pp"},
		doc: "How they do: ddp, zero1 or fsdp; recordings have the others. ddp when left out."},
	{name: "static-graph", kind: yesno, doc: "DistributedDataParallel's setting."},
	{name: "gradient-as-bucket-view", kind: yesno, doc: "Likewise."},
	{name: "shard", kind: text, doc: "Modules that fully_shard wraps: a regular " +
		"expression for their whole names, blocks or none."},
	{name: "reshard-after-forward", kind: yesno, doc: "fully_shard's setting. true when left out."},
	{name: "param-dtype", kind: text, enum: []string{"fp32", "bf16", "fp16"}, doc: "Of FSDP2's MixedPrecisionPolicy."},
	{name: "reduce-dtype", kind: text, enum: []string{"fp32", "bf16", "fp16"},
		doc: "Likewise. param-dtype when left out."},
	{name: "meta-device", kind: yesno, doc: "The model is made on the meta device and sharded there."},
	{name: "cpu-offload", kind: yesno, doc: "FSDP2's CPUOffloadPolicy."},
	{name: "alloc-conf", kind: text, doc: "Settings of the allocator, as PYTORCH_CUDA_ALLOC_CONF."},
	{name: "gpu", kind: texts, doc: "The GPU to run on, such as a100-80gb. An H200 when left out."},
}

// limitKeys are what an estimate is held against.
var limitKeys = []key{
	{name: "device", kind: amount,
		doc: "The most device memory that the process may take at its peak, as nvidia-smi shows it."},
	{name: "reserved", kind: amount, doc: "The most that torch.cuda.max_memory_reserved() may be."},
	{name: "allocated", kind: amount, doc: "The most that torch.cuda.max_memory_allocated() may be."},
	{name: "parameters", kind: amount, doc: "The most that the parameters may take."},
	{name: "growth", kind: growth,
		doc: "How much the device memory may grow over the base: a share such as 5%, a size such as 200MiB, or 0. A model " +
			"without a base is over this limit, but where `new` has it."},
	{name: "fits", kind: texts, doc: "GPUs that the run must fit, such as h100-80gb."},
	{name: "confidence", kind: text, enum: []string{"predicted", "likely", "safe"},
		doc: "How sure `device` and `fits` must be: fewer than two runs in a hundred, three of trainings from default " +
			"exports, take more than what is safe, one in twenty more than what is likely. safe when left out."},
}

// modelKeys describe some models and what is asked of them.
var modelKeys = []key{
	{name: "path", kind: texts, must: true,
		doc: "Files, globs (* within a folder, ** across folders) or names of built-in models. Paths are from the folder " +
			"of the budget file."},
	{name: "exclude", kind: texts, doc: "Globs of files to leave out."},
	{name: "new", kind: texts, doc: "Globs of models that the base may lack, which are then not held to `growth`. A " +
		"file that was only moved is compared with what it was, and needs no entry."},
	{name: "lower-bound", kind: yesno,
		doc: "Accept models with operators that are not modelled, whose figures are lower bounds. false when left out: " +
			"such a model is over its limits."},
	{name: "settings", kind: list, keys: settingKeys,
		doc: "What to estimate these models with, in place of the settings of the file."},
	{name: "limits", kind: nested, keys: limitKeys,
		doc: "What these models must keep, in place of the limits of the file."},
}

// fileKeys are the keys of the file itself.
var fileKeys = []key{
	{name: "version", kind: number, doc: "Version of this format: 1."},
	{name: "base", kind: text, doc: "The git revision that growth is measured from. When left out it is what a pull " +
		"request starts from or a push found, and outside of CI HEAD."},
	{name: "settings", kind: list, keys: settingKeys,
		doc: "What to estimate models with that have no settings of their own: one mapping, or a list of them."},
	{name: "limits", kind: nested, keys: limitKeys, doc: "What models must keep that have no limits of their own."},
	{name: "models", kind: list, keys: modelKeys, must: true, doc: "The models, and what is asked of them."},
}

// SettingNames returns the settings that a budget file knows.
func SettingNames() []string { return names(settingKeys) }

func names(keys []key) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.name
	}
	return out
}
