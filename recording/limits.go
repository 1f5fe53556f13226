package recording

// Limits of the reader. It allocates at most 32 times the text that a file unpacks to, of which at most 12 times are
// held at once, and that text is bounded by the file's size too: what compresses better than any recording does is
// refused.
const (
	// maxText bounds the unpacked text, in bytes. A step of a large model is 10 MB.
	maxText = 4 << 30

	// maxRatio bounds how many bytes of text a byte of the file may stand for, beyond slack. Recordings of many equal
	// steps reach 60.
	maxRatio = 200
	slack    = 4 << 20

	// maxName bounds one string, in bytes.
	maxName = 1 << 16

	// maxBytes bounds a storage: more than any computer has.
	maxBytes = 1 << 50

	// maxDims bounds a tensor's dimensions, as PyTorch does.
	maxDims = 64
)
