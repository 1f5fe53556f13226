package snapshot

// Limits of the reader. Every other bound follows from the bytes read so far:
// nothing is allocated because a length field says so.
const (
	// maxDepth bounds how deep containers nest. PyTorch's own snapshots nest
	// six deep (top, traces, trace, event, frames, frame).
	maxDepth = 100

	// maxMarks bounds the open MARKs, one a level of nesting.
	maxMarks = 2 * maxDepth

	// slack is what a small file may hold before the bounds that grow with the
	// bytes read apply.
	slack = 1 << 12

	// stringChunk is how much of a long string is read before more is
	// allocated for it.
	stringChunk = 1 << 16

	// maxString bounds one string. A name, a file path or a piece of user
	// metadata is far shorter.
	maxString = 64 << 20

	// maxLong bounds an integer's bytes: integers beyond 64 bits are kept where
	// nothing has to compute with them.
	maxLong = 255

	// maxActions bounds the distinct action names of one file. PyTorch has ten.
	maxActions = 200

	// defaultMaxBytes bounds the decompressed size of a file, so that a small
	// gzip file cannot keep the reader busy for ever.
	defaultMaxBytes = 64 << 30
)
