package budget

// Kinds of the values that a key takes.
type kind string

const (
	text     kind = "text"     // one string
	texts    kind = "texts"    // one string or a list of them
	yesno    kind = "yesno"    // true or false
	number   kind = "number"   // a whole number
	amount   kind = "amount"   // a size with its unit, such as 24GiB
	growth   kind = "growth"   // a share such as 5%, a size with its unit, or 0
	nested   kind = "nested"   // a mapping with keys of its own
	list     kind = "list"     // one such mapping or a list of them
	settings kind = "settings" // a mapping of flags to their values, or a list of them
)

// A Key is one key of a budget file. The decoder, the JSON Schema and the table in the documentation are all made from
// these. Settings are flags of memestimate, which alone knows them.
type Key struct {
	Name string
	Kind kind
	Doc  string
	Keys []Key    // of nested and list
	Enum []string // the only texts, where there are few
	Must bool
}

// limitKeys are what an estimate is held against.
var limitKeys = []Key{
	{Name: "device", Kind: amount,
		Doc: "The most device memory that the process may take at its peak, as nvidia-smi shows it."},
	{Name: "reserved", Kind: amount, Doc: "The most that torch.cuda.max_memory_reserved() may be."},
	{Name: "allocated", Kind: amount, Doc: "The most that torch.cuda.max_memory_allocated() may be."},
	{Name: "parameters", Kind: amount, Doc: "The most that the parameters may take."},
	{Name: "growth", Kind: growth,
		Doc: "How much the device memory may grow over the base: a share such as 5%, a size such as 200MiB, or 0. A model " +
			"without a base is over this limit, but where `new` has it."},
	{Name: "fits", Kind: texts, Doc: "GPUs that the run must fit, such as h100-80gb."},
	{Name: "confidence", Kind: text, Enum: []string{"predicted", "likely", "safe"},
		Doc: "How sure `device` and `fits` must be: fewer than two runs in a hundred, three of trainings from default " +
			"exports, take more than what is safe, one in twenty more than what is likely. safe when left out."},
}

// modelKeys describe some models and what is asked of them.
var modelKeys = []Key{
	{Name: "path", Kind: texts, Must: true,
		Doc: "Files, globs (* within a folder, ** across folders) or names of built-in models. Paths are from the folder " +
			"of the budget file."},
	{Name: "exclude", Kind: texts, Doc: "Globs of files to leave out."},
	{Name: "new", Kind: texts, Doc: "Globs of models that the base may lack, which are then not held to `growth`. A " +
		"file that was only moved is compared with what it was, and needs no entry."},
	{Name: "lower-bound", Kind: yesno,
		Doc: "Accept models with operators that are not modelled, whose figures are lower bounds. false when left out: " +
			"such a model is over its limits."},
	{Name: "settings", Kind: settings,
		Doc: "What to estimate these models with, in place of the settings of the file."},
	{Name: "limits", Kind: nested, Keys: limitKeys,
		Doc: "What these models must keep, in place of the limits of the file."},
}

// FileKeys are the keys of the file itself.
var FileKeys = []Key{
	{Name: "version", Kind: number, Doc: "Version of this format: 1."},
	{Name: "base", Kind: text, Doc: "The git revision that growth is measured from. When left out it is what a pull " +
		"request starts from or a push found, and outside of CI HEAD."},
	{Name: "settings", Kind: settings,
		Doc: "What to estimate models with that have no settings of their own: one mapping, or a list of them."},
	{Name: "limits", Kind: nested, Keys: limitKeys, Doc: "What models must keep that have no limits of their own."},
	{Name: "models", Kind: list, Keys: modelKeys, Must: true, Doc: "The models, and what is asked of them."},
}

func names(keys []Key) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.Name
	}
	return out
}
