package recording

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// storage reads the number of a storage that lives.
func (d *decoder) storage() (int32, error) {
	n, err := d.count("a storage")
	if err == nil {
		err = d.alive(n)
	}
	return int32(n), err
}

// id reads the number of one of n definitions, or -1.
func (d *decoder) id(n int, what string) (int32, error) {
	v, err := d.integer(what)
	if err == nil && (v < -1 || v >= int64(n)) {
		err = d.fail("%s %d, of %d", what, v, n)
	}
	return int32(v), err
}

// bytes reads a size.
func (d *decoder) bytes() (int64, error) {
	n, err := d.count("a size in bytes")
	if err == nil && n > maxBytes {
		err = d.fail("%d bytes are more than any computer has", n)
	}
	return n, err
}

// weight reads a size, or that it is not known.
func (d *decoder) weight() (int64, error) {
	n, err := d.integer("a weight in bytes")
	if err == nil && (n < Unweighed || n > maxBytes) {
		err = d.fail("a weight of %d bytes, wanted -1 to %d", n, int64(maxBytes))
	}
	return n, err
}

// small reads a number that is not negative and fits 31 bits.
func (d *decoder) small(what string) (int32, error) {
	n, err := d.count(what)
	if err == nil && n > math.MaxInt32 {
		err = d.fail("%s of %d, wanted at most %d", what, n, math.MaxInt32)
	}
	return int32(n), err
}

// flag reads yes or no.
func (d *decoder) flag() (bool, error) {
	if k := d.json.PeekKind(); k != 't' && k != 'f' && k != 0 {
		return false, d.fail("wanted true or false")
	}
	t, err := d.json.ReadToken()
	return err == nil && t.Bool(), err
}

// count reads a number that is not negative.
func (d *decoder) count(what string) (int64, error) {
	n, err := d.integer(what)
	if err == nil && n < 0 {
		err = d.fail("%s is %d, wanted 0 or more", what, n)
	}
	return n, err
}

func (d *decoder) integer(what string) (int64, error) {
	if k := d.json.PeekKind(); k != '0' && k != 0 {
		return 0, d.fail("%s is no number", what)
	}
	raw, err := d.json.ReadValue()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0, d.fail("%s is %.40s, wanted a whole number of 64 bits", what, raw)
	}
	return n, nil
}

// oneOf reads one of some words and returns which.
func (d *decoder) oneOf(words []string, what string) (uint8, error) {
	s, err := d.string()
	if err != nil {
		return 0, err
	}
	for i, w := range words {
		if w == string(s) {
			return uint8(i), nil
		}
	}
	return 0, d.fail("%s is %q, wanted one of %s", what, short(s), strings.Join(words, ", "))
}

// name reads a string and returns its place in Texts.
func (d *decoder) name() (int32, error) {
	s, err := d.string()
	if err != nil {
		return 0, err
	}
	return d.intern(s), nil
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
func (d *decoder) string() ([]byte, error) {
	if k := d.json.PeekKind(); k != '"' && k != 0 {
		return nil, d.fail("wanted a string")
	}
	raw, err := d.json.ReadValue()
	if err != nil {
		return nil, err
	}
	return d.unquote(raw)
}

// unquote returns what a JSON string stands for, good until the next is read.
func (d *decoder) unquote(raw []byte) (s []byte, err error) {
	if len(raw) > maxName {
		return nil, d.fail("a string of %d bytes, wanted at most %d", len(raw), maxName)
	}
	if s = raw[1 : len(raw)-1]; bytes.IndexByte(s, '\\') >= 0 {
		d.room, err = jsontext.AppendUnquote(d.room[:0], raw)
		s = d.room
	}
	return s, err
}

// short is a string of the file for a message that quotes it.
func short(s []byte) []byte { return s[:min(len(s), 60)] }
