package snapshot

// The pickle opcodes that plain data needs. All others are refused.
const (
	opMark            = '('
	opStop            = '.'
	opBinFloat        = 'G'
	opBinInt          = 'J'
	opBinInt1         = 'K'
	opBinInt2         = 'M'
	opNone            = 'N'
	opBinUnicode      = 'X'
	opAppend          = 'a'
	opAppends         = 'e'
	opBinGet          = 'h'
	opLongBinGet      = 'j'
	opBinPut          = 'q'
	opLongBinPut      = 'r'
	opSetItem         = 's'
	opTuple           = 't'
	opSetItems        = 'u'
	opEmptyDict       = '}'
	opEmptyList       = ']'
	opEmptyTuple      = ')'
	opProto           = 0x80
	opTuple1          = 0x85
	opTuple2          = 0x86
	opTuple3          = 0x87
	opNewTrue         = 0x88
	opNewFalse        = 0x89
	opLong1           = 0x8a
	opLong4           = 0x8b
	opShortBinUnicode = 0x8c
	opBinUnicode8     = 0x8d
	opMemoize         = 0x94
	opFrame           = 0x95
)

// refused names the opcodes that a snapshot has no business using, with what
// they would do.
var refused = map[byte]string{
	'c':  "GLOBAL, which imports a Python object",
	'R':  "REDUCE, which calls a Python function",
	'b':  "BUILD, which sets a Python object's state",
	'i':  "INST, which makes a Python object",
	'o':  "OBJ, which makes a Python object",
	0x81: "NEWOBJ, which makes a Python object",
	0x92: "NEWOBJ_EX, which makes a Python object",
	0x93: "STACK_GLOBAL, which imports a Python object",
	0x82: "EXT1, which makes a registered Python object",
	0x83: "EXT2, which makes a registered Python object",
	0x84: "EXT4, which makes a registered Python object",
	'P':  "PERSID, which asks for an object outside the file",
	'Q':  "BINPERSID, which asks for an object outside the file",
	'0':  "POP",
	'1':  "POP_MARK",
	'2':  "DUP",
	'd':  "DICT, of protocol 0",
	'l':  "LIST, of protocol 0",
	'I':  "INT, of protocol 0",
	'L':  "LONG, of protocol 0",
	'F':  "FLOAT, of protocol 0",
	'S':  "STRING, of protocol 0",
	'V':  "UNICODE, of protocol 0",
	'g':  "GET, of protocol 0",
	'p':  "PUT, of protocol 0",
	'T':  "BINSTRING, bytes where a snapshot has text",
	'U':  "SHORT_BINSTRING, bytes where a snapshot has text",
	'B':  "BINBYTES, bytes where a snapshot has text",
	'C':  "SHORT_BINBYTES, bytes where a snapshot has text",
	0x8e: "BINBYTES8, bytes where a snapshot has text",
	0x8f: "EMPTY_SET",
	0x90: "ADDITEMS",
	0x91: "FROZENSET",
	0x96: "BYTEARRAY8, bytes where a snapshot has text",
	0x97: "NEXT_BUFFER, which asks for a buffer outside the file",
	0x98: "READONLY_BUFFER, which asks for a buffer outside the file",
}
