package shape

import (
	"strconv"
	"strings"
)

// maxExpr is the longest dimension expression that is parsed, in bytes. Longer
// text is a symbol as it stands.
const maxExpr = 512

// evaluate returns what a dimension comes to that an exporter wrote into dim_param: a number, a symbol, or an
// expression such as "batch*2", "past_sequence_length + 1", "floor(h/2)", "(s0 + 1)//2" or "Max(1, s7)". Text that is
// none of these is a symbol with that name, which is what ONNX says of it. Symbols without a size are unknown. names
// are the symbols, in order, repeats included.
func evaluate(text string, size func(name string) (int64, bool)) (d Dim, names []string) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return N(n), nil
	}
	p := exprParser{rest: text, size: size}
	if len(text) <= maxExpr {
		d = p.sum(0)
		p.space()
		if !p.failed && p.rest == "" && !d.Overflowed() {
			return d, p.names
		}
	}
	p.names = nil
	return p.symbol(text), p.names
}

// An exprParser reads an expression by recursive descent. After failed is set
// its results mean nothing.
type exprParser struct {
	rest   string
	size   func(name string) (int64, bool)
	names  []string
	failed bool
}

func (p *exprParser) symbol(name string) Dim {
	p.names = append(p.names, name)
	if n, ok := p.size(name); ok {
		return N(n)
	}
	return unknownSize
}

// maxExprDepth bounds the parentheses in an expression.
const maxExprDepth = 32

func (p *exprParser) space() { p.rest = strings.TrimLeft(p.rest, " \t") }

// take consumes s when the rest begins with it.
func (p *exprParser) take(s string) bool {
	p.space()
	if !strings.HasPrefix(p.rest, s) {
		return false
	}
	p.rest = p.rest[len(s):]
	return true
}

func (p *exprParser) fail() Dim {
	p.failed = true
	return Dim{}
}

// sum reads terms joined by + and -.
func (p *exprParser) sum(depth int) Dim {
	if depth > maxExprDepth {
		return p.fail()
	}
	d := p.product(depth)
	for !p.failed {
		switch {
		case p.take("+"):
			d = Add(d, p.product(depth))
		case p.take("-"):
			d = Sub(d, p.product(depth))
		default:
			return d
		}
	}
	return d
}

// product reads factors joined by *, // , / and %. A plain / is a floor division as well:
// dimensions are whole, and exporters write it where it leaves no rest or inside floor().
func (p *exprParser) product(depth int) Dim {
	d := p.power(depth)
	for !p.failed {
		switch {
		case p.take("*"):
			d = Mul(d, p.power(depth))
		case p.take("//"), p.take("/"):
			d = p.divide(d, p.power(depth), FloorDiv)
		case p.take("%"):
			d = p.divide(d, p.power(depth), Mod)
		default:
			return d
		}
	}
	return d
}

func (p *exprParser) divide(a, b Dim, by func(a, b Dim) Dim) Dim {
	if n, ok := b.Int(); ok && n == 0 {
		return p.fail()
	}
	return by(a, b)
}

// power reads a factor with a small constant exponent: s0**2.
func (p *exprParser) power(depth int) Dim {
	d := p.factor(depth)
	if !p.failed && p.take("**") {
		n, ok := p.factor(depth).Int()
		if !ok || n < 1 || n > 8 {
			return p.fail()
		}
		base := d
		for ; n > 1; n-- {
			d = Mul(d, base)
		}
	}
	return d
}

// factor reads a number, a symbol, a call, a parenthesis, or a sign before one.
func (p *exprParser) factor(depth int) Dim {
	if depth > maxExprDepth {
		return p.fail()
	}
	switch {
	case p.take("-"):
		return Sub(N(0), p.factor(depth+1))
	case p.take("("):
		d := p.sum(depth + 1)
		if !p.take(")") {
			return p.fail()
		}
		return d
	}
	p.space()
	n := 0
	for n < len(p.rest) && (isWord(p.rest[n]) || n > 0 && isHyphen(p.rest[n-1:])) {
		n++
	}
	if n == 0 {
		return p.fail()
	}
	word := p.rest[:n]
	p.rest = p.rest[n:]
	if '0' <= word[0] && word[0] <= '9' {
		v, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return p.fail()
		}
		return N(v)
	}
	if !p.take("(") {
		return p.symbol(word)
	}
	return p.call(strings.ToLower(word), depth+1)
}

// call reads the arguments of a function whose name and parenthesis are read.
func (p *exprParser) call(name string, depth int) Dim {
	var args []Dim
	for {
		if name == "ceil" || name == "ceiling" {
			// ceil(a/b) is a division that rounds the other way.
			a := p.power(depth)
			if !p.failed && (p.take("//") || p.take("/")) {
				a = p.divide(a, p.power(depth), CeilDiv)
			}
			args = append(args, a)
		} else {
			args = append(args, p.sum(depth))
		}
		if p.failed || !p.take(",") {
			break
		}
	}
	if p.failed || !p.take(")") {
		return p.fail()
	}
	switch {
	case len(args) == 1 && (name == "floor" || name == "ceil" || name == "ceiling" || name == "int" || name == "trunc"):
		return args[0]
	case len(args) == 2 && (name == "floordiv" || name == "cleandiv"):
		return p.divide(args[0], args[1], FloorDiv)
	case len(args) == 2 && name == "ceildiv":
		return p.divide(args[0], args[1], CeilDiv)
	case len(args) == 2 && (name == "mod" || name == "pythonmod"):
		return p.divide(args[0], args[1], Mod)
	case name == "max" || name == "min":
		d := args[0]
		for _, a := range args[1:] {
			if name == "max" {
				d = Max(d, a)
			} else {
				d = Min(d, a)
			}
		}
		return d
	}
	return p.fail()
}

// isWord reports whether c may stand in a number or a symbol.
func isWord(c byte) bool {
	return c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

// isHyphen reports whether s, from one character before it on, has a hyphen inside a
// name, as in batch-size: between two letters. Exporters write spaces around a minus.
func isHyphen(s string) bool {
	return len(s) > 2 && s[1] == '-' && isLetter(s[0]) && isLetter(s[2])
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
