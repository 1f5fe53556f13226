package recording

import (
	"bytes"
	"errors"
	"math"
	"strconv"
)

func (d *decoder) call() {
	c := Call{Op: d.index(len(d.rec.Ops), "operator"), args: int32(len(d.rec.Values))}
	d.inCall, d.pending, d.born = false, d.line, 0
	d.list(false)
	c.results = int32(len(d.rec.Values))
	d.list(true)
	c.end = int32(len(d.rec.Values))
	if len(d.rec.Values) > math.MaxInt32/2 {
		d.fail("more than %d arguments", math.MaxInt32/2)
	}
	c.Frame, c.Module = d.id(len(d.rec.Frames), "frame"), d.id(len(d.rec.Modules), "module")
	d.inCall = true
	d.rec.Calls = append(d.rec.Calls, c)
}

// list reads the arguments or the results of a call. Results are flattened: lists among them have no Value.
func (d *decoder) list(results bool) {
	d.open()
	for d.more() {
		if d.json.PeekKind() != '[' {
			d.value(results)
			continue
		}
		at := len(d.rec.Values)
		if !results {
			d.rec.Values = append(d.rec.Values, 0)
		}
		d.open()
		for d.more() {
			if d.json.PeekKind() == '[' {
				d.fail("a list in a list of arguments' items")
			}
			d.value(results)
		}
		d.token()
		if !results {
			d.rec.Values[at] = indexValue(List, len(d.rec.Values)-at-1)
		}
	}
	d.token()
}

// value reads one value that is no list.
func (d *decoder) value(result bool) {
	raw := d.raw()
	if d.err != nil {
		return
	}
	var v Value
	switch raw.Kind() {
	case 'n':
	case 't', 'f':
		v = intValue(0)&^(1<<valueBits-1) | Value(Bool)
		if raw[0] == 't' {
			v |= 1 << valueBits
		}
	case '0':
		var err error
		if v, err = number(raw); err != nil {
			d.fail("%s is no number of Python", raw)
		}
	case '"':
		v = d.quoted(raw, result)
	default:
		d.fail("an object among a call's values")
	}
	d.rec.Values = append(d.rec.Values, v)
}

// number reads a number: one without point and exponent is an integer, which saturates.
func number(raw []byte) (Value, error) {
	n, err := strconv.ParseInt(string(raw), 10, 64) // the nearest where there are too many digits
	if !errors.Is(err, strconv.ErrSyntax) {
		return intValue(n), nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, err
	}
	return floatValue(f), nil
}

// quoted reads a value that stands in quotes: a tensor, a text or a word.
func (d *decoder) quoted(raw []byte, result bool) Value {
	s := d.unquote(raw)
	if len(s) == 0 {
		d.fail("an empty string among a call's values")
		return 0
	}
	switch s[0] {
	case '\'':
		return indexValue(Text, int(d.intern(s[1:])))
	case '!':
		switch string(s) {
		case "!inf":
			return floatValue(math.Inf(1))
		case "!-inf":
			return floatValue(math.Inf(-1))
		case "!nan":
			return floatValue(math.NaN())
		}
		return indexValue(Word, int(d.intern(s[1:])))
	}
	where, layout, _ := bytes.Cut(s, []byte{':'})
	host := string(where) == "c"
	meta, ok := digits(layout)
	storage, on := digits(where)
	switch n := int64(max(d.rec.Storages, d.born)); {
	case !ok || !on && !host:
		d.fail("%q among a call's values is no tensor, text or word", short(s))
	case meta >= int64(len(d.rec.Metas)):
		d.fail("layout %d, of %d", meta, len(d.rec.Metas))
	case host:
		return tensorValue(-1, int32(meta))
	case !result || storage < int64(d.rec.Storages):
		d.alive(storage)
	case storage > n:
		d.fail("storage %d, wanted at most %d, the next number", storage, n)
	default:
		d.born = max(d.born, int32(storage)+1)
	}
	return tensorValue(int32(storage), int32(meta))
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

func (d *decoder) alive(storage int64) {
	switch {
	case d.err != nil:
	case storage >= int64(d.rec.Storages):
		d.fail("storage %d, of %d", storage, d.rec.Storages)
	case !d.live[storage]:
		d.fail("storage %d was freed before", storage)
	}
}
