package recording

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// next reports whether what comes next is of a kind. What is no JSON is, too: reading it says why.
func (d *decoder) next(kind jsontext.Kind) bool {
	k := d.json.PeekKind()
	return k == kind || k == 0
}

// more reports whether a list goes on.
func (d *decoder) more() bool { return d.err == nil && d.json.PeekKind() != ']' }

// open reads the bracket that a list opens with. The one that closes it is a token.
func (d *decoder) open() {
	if !d.next('[') {
		d.fail("wanted a list")
	}
	d.token()
}

func (d *decoder) token() (t jsontext.Token) {
	if d.err == nil {
		t, d.err = d.json.ReadToken()
	}
	return t
}

// raw reads a value as it stands, good until the next is read.
func (d *decoder) raw() (v jsontext.Value) {
	if d.err == nil {
		v, d.err = d.json.ReadValue()
	}
	return v
}

// storage reads the number of a storage that lives.
func (d *decoder) storage() int32 {
	n := d.count("a storage")
	d.alive(n)
	return int32(n)
}

// index reads the number of one of n definitions.
func (d *decoder) index(n int, what string) int32 {
	v := d.id(n, what)
	if v < 0 {
		d.fail("%s %d, of %d", what, v, n)
	}
	return v
}

// id reads the number of one of n definitions, or -1.
func (d *decoder) id(n int, what string) int32 {
	v := d.integer(what)
	if v < -1 || v >= int64(n) {
		d.fail("%s %d, of %d", what, v, n)
	}
	return int32(v)
}

// bytes reads a size.
func (d *decoder) bytes() int64 {
	n := d.count("a size in bytes")
	if n > maxBytes {
		d.fail("%d bytes are more than any computer has", n)
	}
	return n
}

// weight reads a size, or that it is not known.
func (d *decoder) weight() int64 {
	n := d.integer("a weight in bytes")
	if n < Unweighed || n > maxBytes {
		d.fail("a weight of %d bytes, wanted -1 to %d", n, int64(maxBytes))
	}
	return n
}

// small reads a number that is not negative and fits 31 bits.
func (d *decoder) small(what string) int32 {
	n := d.count(what)
	if n > math.MaxInt32 {
		d.fail("%s of %d, wanted at most %d", what, n, math.MaxInt32)
	}
	return int32(n)
}

// flag reads yes or no.
func (d *decoder) flag() bool {
	if !d.next('t') && !d.next('f') {
		d.fail("wanted true or false")
	}
	t := d.token()
	return d.err == nil && t.Bool()
}

// count reads a number that is not negative.
func (d *decoder) count(what string) int64 {
	n := d.integer(what)
	if n < 0 {
		d.fail("%s is %d, wanted 0 or more", what, n)
	}
	return n
}

func (d *decoder) integer(what string) int64 {
	if !d.next('0') {
		d.fail("%s is no number", what)
	}
	raw := d.raw()
	if d.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		d.fail("%s is %.40s, wanted a whole number of 64 bits", what, raw)
	}
	return n
}

// oneOf reads one of some words and returns which.
func (d *decoder) oneOf(words []string, what string) uint8 {
	s := d.string()
	i := slices.Index(words, string(s))
	if i < 0 {
		d.fail("%s is %q, wanted one of %s", what, short(s), strings.Join(words, ", "))
	}
	return uint8(max(i, 0))
}

// name reads a string and returns its place in Texts.
func (d *decoder) name() int32 { return d.intern(d.string()) }

// text reads a string that others are likely equal to.
func (d *decoder) text() string {
	i := d.name()
	return d.rec.Texts[i]
}

// intern returns the place of a string in Texts.
func (d *decoder) intern(s []byte) int32 {
	if i, ok := d.texts[string(s)]; ok {
		return i
	}
	i, text := int32(len(d.rec.Texts)), string(s)
	d.rec.Texts = append(d.rec.Texts, text)
	d.texts[text] = i
	return i
}

// string reads a string, which is good until the next is read.
func (d *decoder) string() []byte {
	if !d.next('"') {
		d.fail("wanted a string")
	}
	raw := d.raw()
	if d.err != nil {
		return nil
	}
	return d.unquote(raw)
}

// unquote returns what a JSON string stands for, good until the next is read.
func (d *decoder) unquote(raw []byte) (s []byte) {
	if len(raw) > maxName {
		d.fail("a string of %d bytes, wanted at most %d", len(raw), maxName)
		return nil
	}
	if s = raw[1 : len(raw)-1]; bytes.IndexByte(s, '\\') >= 0 {
		d.room, d.err = jsontext.AppendUnquote(d.room[:0], raw)
		s = d.room
	}
	return s
}

// short is a string of the file for a message that quotes it.
func short(s []byte) []byte { return s[:min(len(s), 60)] }
