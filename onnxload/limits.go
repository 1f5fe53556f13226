package onnxload

import "cmp"

// Limits bound what a file may ask of the reader. A field that is zero has the
// default named beside it.
type Limits struct {
	// operator calls after inlining, subgraphs included: 5,000,000, over 20 times the largest exports known, and of
	// functions no more than is in proportion to the file
	Nodes  int64
	Bytes  int64 // bytes of the file that are looked at, skipped payloads left out: 2 GiB, protobuf's own bound
	Attrs  int   // attributes of a node: 256. Operators of ONNX have at most 20, calls of functions some more
	Rank   int   // dimensions of a tensor or type: 64. PyTorch and NumPy stop there too
	Depth  int   // messages within messages: 100, as protobuf's C++ and Python readers have it
	String int64 // bytes of a string that is kept: 16 MiB. Longer attribute strings are compiled engines, not graph
	Const  int64 // bytes of a payload that Ints and Floats read: 64 KiB; 16 MiB at most
}

const (
	maxConst   = 16 << 20 // hard cap of Limits.Const: values that decide shapes are never larger
	maxKept    = 64 << 20 // payloads of a stream kept in memory, all together
	keepInline = 128      // payloads of at most so many bytes are kept while reading a file, which saves a read each
	maxNotes   = 20       // notes of one kind; the rest is counted

	// Calls of functions may unfold to so many nodes more than twice those of the file, and to one more for so many bytes
	// of it. Of 25,000 nodes that a file does not have, reading alone takes 30 MB.
	freeUnfolded, unfoldedBytes = 25_000, 64

	maxInlined = 1024 // bytes of a name inside of a function's call; that of an export's has 40 to 200
	nameWeight = 64   // bytes of an inlined value's name that count as one more node

	latestIR = 14 // the newest IR version this reader knows
)

// LatestOpset is the newest version of ai.onnx whose changes the rules of package shape follow.
const LatestOpset = 28

func (l Limits) withDefaults() Limits {
	return Limits{
		Nodes:  cmp.Or(l.Nodes, 5_000_000),
		Bytes:  cmp.Or(l.Bytes, 2<<30),
		Attrs:  cmp.Or(l.Attrs, 256),
		Rank:   cmp.Or(l.Rank, 64),
		Depth:  cmp.Or(l.Depth, 100),
		String: cmp.Or(l.String, 16<<20),
		Const:  min(cmp.Or(l.Const, 64<<10), maxConst),
	}
}
