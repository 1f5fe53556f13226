package module

import (
	"fmt"
	"math"
	"strings"
)

// Facts are what is said of an ONNX operator by its row, whatever a node of it is used for. Inputs are counted from
// 0: bit i of a mask stands for input i. Where any number of inputs may follow, as in Concat, they are as the last
// one that is named.
type Facts struct {
	Weights uint32 // tensors that a module trains
	Buffers uint32 // tensors that it keeps and does not train: running statistics, quantization scales
	Numbers uint32 // what PyTorch takes as Python numbers
	Shapes  uint32 // read for their shape alone: no data goes through them
	Types   uint32 // read for their element type alone
	Likes   uint32 // read for their shape and their element type, which a new tensor has

	Required uint32 // inputs that no node leaves out
	Least    int    // how many inputs a node has
	Most     int

	Traits
}

// Traits are what else an operator is.
type Traits uint8

// The traits.
const (
	View       Traits = 1 << iota // another look at its first input's storage; of a parameter it is the exporter's doing
	Prepares                      // a new tensor of data; of parameters alone, what an ONNX operator wants to be given
	Affine                        // adds to a tensor, or multiplies it, element by element
	Quantized                     // arithmetic on quantized numbers: PyTorch does not train it
	Random                        // draws random numbers as only training does
	RunsGraph                     // runs a graph of its own several times
	Compares                      // says of each element whether it is so, through which no gradient goes
	LaterAlone                    // of its results a later one may be kept without the first
)

// Has reports whether an operator is all of these.
func (f *Facts) Has(t Traits) bool { return f.Traits&t == t }

// Weight reports whether a module may train what arrives at an input.
func (f *Facts) Weight(slot int) bool { return has(f.Weights, slot) }

// Buffer reports whether a module may keep, and not train, what arrives at an input.
func (f *Facts) Buffer(slot int) bool { return has(f.Buffers, slot) }

// Number reports whether PyTorch takes an input as a Python number.
func (f *Facts) Number(slot int) bool { return has(f.Numbers, slot) }

// Type reports whether an input is read for its element type alone.
func (f *Facts) Type(slot int) bool { return has(f.Types, slot) }

// Shape reports whether an input is read for its shape alone, which Python has.
func (f *Facts) Shape(slot int) bool { return has(f.Shapes, slot) }

// GivesShape reports whether an operator returns its input's shape.
func (f *Facts) GivesShape() bool { return f.Shapes != 0 }

// NoData reports whether no data goes through an operator: its results depend on its inputs' shapes alone.
func (f *Facts) NoData() bool { return f.Shapes|f.Likes != 0 }

func has(mask uint32, slot int) bool { return slot < 32 && mask&(1<<uint(slot)) != 0 }

// Fit reports whether a node may have so many inputs, of which given tells the ones that are not left out.
func (f *Facts) Fit(inputs int, given func(slot int) bool) bool {
	if inputs < f.Least || inputs > f.Most {
		return false
	}
	for slot := range f.Least {
		if has(f.Required, slot) && !given(slot) {
			return false
		}
	}
	return true
}

// unknown are the facts of an operator without a row: what it reads is data.
var unknown = Facts{Most: math.MaxInt}

// An Operators finds the row of an operator; nil where it has none.
type Operators func(domain, op string) *Facts

// Of returns the facts of an operator, those of an unknown one where it has no row.
func (f Operators) Of(domain, op string) *Facts {
	if facts := f(domain, op); facts != nil {
		return facts
	}
	return &unknown
}

// Inputs reads how a row names an operator's inputs, in their order and separated by spaces:
//
//	data    a tensor that the model computes
//	weight  one that a module may have trained
//	affine  likewise; where the module has none, the exporter writes ones and zeros, which PyTorch is not given
//	buffer  one that a module keeps and does not train
//	number  what PyTorch takes as a Python number, or several
//	shape   a tensor of which the shape alone is read
//	like    a tensor whose shape and element type a new one has
//	type    a tensor of which the element type alone is read
//
// An input with ? may be left out. One with * may come any number of times, one with + at least once; both are last.
func Inputs(names string, traits Traits) Facts {
	f := Facts{Traits: traits}
	for word := range strings.FieldsSeq(names) {
		kind := strings.TrimRight(word, "?*+")
		mask := uint32(1) << uint(f.Most)
		if strings.HasSuffix(word, "*") || strings.HasSuffix(word, "+") {
			mask = ^(mask - 1)
		}
		switch kind {
		case "data":
		case "weight":
			f.Weights |= mask
		case "affine":
			f.Weights |= mask
			f.Numbers |= mask
		case "buffer":
			f.Buffers |= mask
		case "number":
			f.Numbers |= mask
		case "shape":
			f.Shapes |= mask
			f.Numbers |= mask
		case "like":
			f.Likes |= mask
		case "type":
			f.Types |= mask
			f.Numbers |= mask
		default:
			panic(fmt.Sprintf("a row names an input %q", word)) // read when the program starts: no file comes here
		}
		if kind == word || strings.HasSuffix(word, "+") {
			f.Least = f.Most + 1
			f.Required |= 1 << uint(f.Most)
		}
		f.Most++
		if strings.HasSuffix(word, "*") || strings.HasSuffix(word, "+") {
			f.Most = math.MaxInt
			break
		}
	}
	return f
}
