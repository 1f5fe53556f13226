package recording

import (
	"bytes"
	"math"
	"strconv"
)

func (d *decoder) call() error {
	c := Call{args: int32(len(d.rec.Values))}
	n, err := d.count("an operator")
	if err != nil {
		return err
	}
	if n >= int64(len(d.rec.Ops)) {
		return d.fail("operator %d, of %d", n, len(d.rec.Ops))
	}
	c.Op = int32(n)
	d.inCall, d.pending, d.born = false, d.line, 0
	if err := d.list(false); err != nil {
		return err
	}
	c.results = int32(len(d.rec.Values))
	if err := d.list(true); err != nil {
		return err
	}
	c.end = int32(len(d.rec.Values))
	if len(d.rec.Values) > math.MaxInt32/2 {
		return d.fail("more than %d arguments", math.MaxInt32/2)
	}
	if c.Frame, err = d.id(len(d.rec.Frames), "frame"); err != nil {
		return err
	}
	if c.Module, err = d.id(len(d.rec.Modules), "module"); err != nil {
		return err
	}
	d.inCall = true
	d.rec.Calls = append(d.rec.Calls, c)
	return nil
}

// list reads the arguments or the results of a call. Results are flattened: lists among them have no Value.
func (d *decoder) list(results bool) error {
	if err := d.open(); err != nil {
		return err
	}
	for d.json.PeekKind() != ']' {
		if d.json.PeekKind() != '[' {
			if err := d.value(results); err != nil {
				return err
			}
			continue
		}
		at := len(d.rec.Values)
		if !results {
			d.rec.Values = append(d.rec.Values, 0)
		}
		if err := d.open(); err != nil {
			return err
		}
		for d.json.PeekKind() != ']' {
			if d.json.PeekKind() == '[' {
				return d.fail("a list in a list of arguments' items")
			}
			if err := d.value(results); err != nil {
				return err
			}
		}
		if _, err := d.json.ReadToken(); err != nil {
			return err
		}
		if !results {
			d.rec.Values[at] = indexValue(List, len(d.rec.Values)-at-1)
		}
	}
	_, err := d.json.ReadToken()
	return err
}

// value reads one value that is no list.
func (d *decoder) value(result bool) error {
	var v Value
	raw, err := d.json.ReadValue()
	if err != nil {
		return err
	}
	switch raw.Kind() {
	case 'n':
	case 't', 'f':
		v = intValue(0)&^(1<<valueBits-1) | Value(Bool)
		if raw[0] == 't' {
			v |= 1 << valueBits
		}
	case '0':
		if v, err = number(raw); err != nil {
			return d.fail("%s is no number of Python", raw)
		}
	case '"':
		if v, err = d.quoted(raw, result); err != nil {
			return err
		}
	default:
		return d.fail("an object among a call's values")
	}
	d.rec.Values = append(d.rec.Values, v)
	return nil
}

// number reads a number: one without point and exponent is an integer, which saturates.
func number(raw []byte) (Value, error) {
	for _, c := range raw {
		if c == '.' || c == 'e' || c == 'E' {
			f, err := strconv.ParseFloat(string(raw), 64)
			if err != nil && !math.IsInf(f, 0) {
				return 0, err
			}
			return floatValue(f), nil
		}
	}
	n, negative := int64(0), raw[0] == '-'
	for _, c := range raw {
		if c == '-' {
			continue
		}
		if n = n*10 + int64(c-'0'); n > maxInt {
			n = maxInt
			break
		}
	}
	if negative {
		n = -n
	}
	return intValue(n), nil
}

// quoted reads a value that stands in quotes: a tensor, a text or a word.
func (d *decoder) quoted(raw []byte, result bool) (Value, error) {
	s, err := d.unquote(raw)
	if err != nil {
		return 0, err
	}
	if len(s) == 0 {
		return 0, d.fail("an empty string among a call's values")
	}
	switch s[0] {
	case '\'':
		return indexValue(Text, int(d.intern(s[1:]))), nil
	case '!':
		switch string(s) {
		case "!inf":
			return floatValue(math.Inf(1)), nil
		case "!-inf":
			return floatValue(math.Inf(-1)), nil
		case "!nan":
			return floatValue(math.NaN()), nil
		}
		return indexValue(Word, int(d.intern(s[1:]))), nil
	}
	where, layout, _ := bytes.Cut(s, []byte{':'})
	meta, ok := digits(layout)
	if !ok {
		return 0, d.fail("%q among a call's values is no tensor, text or word", short(s))
	}
	if meta >= int64(len(d.rec.Metas)) {
		return 0, d.fail("layout %d, of %d", meta, len(d.rec.Metas))
	}
	if string(where) == "c" {
		return tensorValue(-1, int32(meta)), nil
	}
	storage, ok := digits(where)
	if !ok {
		return 0, d.fail("%q among a call's values is no tensor, text or word", short(s))
	}
	if !result {
		return tensorValue(int32(storage), int32(meta)), d.alive(storage)
	}
	if n := int64(max(d.rec.Storages, d.born)); storage > n {
		return 0, d.fail("storage %d, wanted at most %d, the next number", storage, n)
	} else if storage < int64(d.rec.Storages) {
		return tensorValue(int32(storage), int32(meta)), d.alive(storage)
	}
	d.born = max(d.born, int32(storage)+1)
	return tensorValue(int32(storage), int32(meta)), nil
}

// digits reads a number of at most nine digits.
func digits(s []byte) (n int64, ok bool) {
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, len(s) > 0 && len(s) < 10
}

func (d *decoder) alive(storage int64) error {
	if storage >= int64(d.rec.Storages) {
		return d.fail("storage %d, of %d", storage, d.rec.Storages)
	}
	if !d.live[storage] {
		return d.fail("storage %d was freed before", storage)
	}
	return nil
}
