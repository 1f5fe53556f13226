package pysource

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// say prints what the parser took a line for.
func (line *Line) say() string {
	var parts []string
	for _, s := range line.Statements {
		kind := map[StatementKind]string{Bare: "bare", Part: "part", Binding: "bind", Augment: "augment" + s.Op,
			Returns: "return"}[s.Kind]
		p := kind + " " + strings.Join(s.Targets, ",") + " <- " + strings.Join(s.Reads, ",")
		if len(s.Sites) > 0 {
			p += " calls"
			for _, c := range s.Sites {
				p += fmt.Sprintf(" %q", c.Path)
			}
		}
		for i, is := range []bool{s.Spread, s.Listed, s.Attr, s.Items, s.Sums} {
			if is {
				p += " " + []string{"spread", "listed", "attr", "items", "sums"}[i]
			}
		}
		if s.Held != "" {
			p += " held " + s.Held
		}
		if len(s.Renews) > 0 {
			p += " renews " + strings.Join(s.Renews, ",")
		}
		if len(s.Indexed) > 0 {
			p += " indexed " + strings.Join(s.Indexed, ",")
		}
		if len(s.Sliced) > 0 {
			p += " sliced " + strings.Join(s.Sliced, ",")
		}
		if s.Inplace {
			p += " in place"
		}
		if s.Flag {
			p += " by a flag"
		}
		if s.Copies != "" {
			p += " copies " + s.Copies
		}
		if s.Alone {
			p += " alone"
		}
		parts = append(parts, p)
	}
	text := strings.Join(parts, "; ")
	if line.Open {
		text += " ..."
	}
	return text
}

func TestLines(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"h[i], c[i] = cell(y, (h[i], c[i]))", `bind , <- y,h,c calls "" spread held c renews h,c indexed h,c`},
		{"h[i] = self.cell(h[i - 1])", `bind  <- h calls "cell" held h indexed h`},
		{"x = self.conv1(x)", `bind x <- x calls "conv1"`},
		{"out += identity", "augment+ out <- out,identity"},
		{"x = shortcut + self.drop_path(self.attn(self.norm1(x)))", `bind x <- shortcut,x calls "drop_path" "attn" "norm1"`},
		{"q, k, v = qkv.unbind(0)", "bind q,k,v <- qkv spread"},
		{"y, (h, c) = self.r(x)", `bind y,h,c <- x calls "r" spread`},
		{"inputs_embeds: torch.Tensor = self.embed_tokens(input_ids)",
			`bind inputs_embeds <- input_ids calls "embed_tokens"`},
		{"query = key = value = query.transpose(1, 0)", "bind query,key,value <- query"},
		{"x = x.view(B, N, C)  # B, N, C", "bind x <- x"},
		{"x = x[:, i] + torch.cat([a, b], dim=1)", "bind x <- x,a,b sliced x"},
		{"y = y + x*self.gates[:, i:i+1] * self.scales[i]", "bind y <- y,x sliced self.gates"},
		{"x = self.blocks[1:](x) + a.b[:, 0]", `bind x <- x,a calls "blocks"`},
		{"return F.batch_norm(", "return  <-  ..."},
		{"return (v.contiguous(), None)", "return  <- v items alone"},
		{"return self.proj(x), None", `return  <- x calls "proj" alone`},
		{"return x, attn", "return  <- x,attn"},
		{"x = torch.cat([", "bind x <-  ..."},
		{"self.attn(self.norm1(x)),", `bare  <- x calls "attn" "norm1"`},
		{".permute(0, 2, 1))", "part  <- "},
		{"+ self.mlp(x)", `part  <- x calls "mlp"`},
		{"x)", "part  <- x"},
		{"outs.append(module(x))", `bare  <- x calls "" held outs`},
		{"features[name] = self.layer(x)", `bind  <- x calls "layer" held features`},
		{"self.cache = x", "bind self.cache <- x copies x"},
		{"x, self.attn = attention(", `bind x,self.attn <-  calls "" spread ...`},
		{"out.logits = x", "bind  <- x attr copies x"},
		{"x = up(x, blocks[-i - 1], x[:, 0])", `bind x <- x,blocks,x calls "" indexed blocks sliced x`},
		{"s = x", "bind s <- x copies x"},
		{"xs = [x, y]", "bind xs <- x,y items"},
		{"x = self.i(x); s = x", `bind x <- x calls "i"; bind s <- x copies x`},
		{"for b in self.b: x = x + b(x)*0.1", `bind x <- x,x calls ""`},
		{"def forward(self, x): return self.o(self.n(x))", `return  <- x calls "o" "n"`},
		{"x = [op(y[i]) for i, op in enumerate(self.paths)]", `bind x <- y calls "" listed items indexed y`},
		{"x = self.blocks[i](x)", `bind x <- x calls "blocks"`},
		{"x = eval('self.block' + str(i))(x)", `bind x <- x calls ""`},
		{`y = b["n1"](x)`, `bind y <- b,x calls "" indexed b`},
		{"x = sum([f(y) for y in ys])", `bind x <-  calls "" listed sums`},
		{"x = y.sum([1])", `bind x <- y`},
		{"x.add_(y)", "bare  <- x,y in place"},
		{"x = F.relu(x, inplace=True)", "bind x <- x in place"},
		{"return F.relu(input, inplace=self.inplace)", "return  <- input by a flag"},
		{`x = f"{a}" if x is None else x`, "bind x <- x,x"},
		{"if (y := self.f(x)) is not None:", `bare y <- x calls "f"`},
		{"x = \\", "bind x <-  ..."},
		{"x = 'never ends", "bind x <-  ..."},
		{"", ""},
		{"lambda: (", "bare  <-  ..."},
		{"= = = ]", "part  <- "},
		{strings.Repeat("(", 1000), "bare  <-  ..."},
		{strings.Repeat("x = ", 2000), " ..."},
	} {
		got := parseLine(c.line).say()
		if got != c.want {
			t.Errorf("%.60q: %s, want %s", c.line, got, c.want)
		}
	}
}

// No line makes the parser panic, or take long.
func FuzzLine(f *testing.F) {
	for _, s := range []string{"x, *y = f(self.a(b[1:], *c, k=d)); z @= w", "for x in y: a = b if c else lambda q: r",
		"((((,=:=)]}", "x = \"\"\"a\\", "{a: b for a, b in c}[d](e)", "x,*y=(a([]c,k=d)) z H= w"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		line := parseLine(s)
		for _, st := range line.Statements {
			if len(st.Targets)+len(st.Reads)+len(st.Sites) > 3*len(s)+3 {
				t.Errorf("%q has more names than bytes", s)
			}
		}
	})
}

// What a line detaches is what it calls last: of a name, x.detach(), it is unknown what made it.
func TestDetached(t *testing.T) {
	for source, want := range map[string][]string{
		"sim = sim - sim.amax(dim=-1, keepdim=True).detach()": {"amax"},
		"x = torch.where(m, f(x.mean(0)).detach(), y)":        {"f"},
		"x = y + (z - y).detach() * z.detach()":               nil,
		"return self.encoder(x).detach()":                     {"encoder"},
		"x = y.sum().detach":                                  nil,
	} {
		if got := parseLine(source).Detached; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

// What a line copies is what is turned there, and no other word.
func TestCopied(t *testing.T) {
	for source, want := range map[string][]string{
		"out = self.net(x.permute(0, 3, 1, 2).contiguous())":       {"permute"},
		"q = q.transpose(1, 2).contiguous().view(b, n, -1)":        {"transpose"},
		"q, k = q.transpose(1, 2).contiguous(), k.transpose(1, 2)": {"transpose"},
		"x = x.contiguous().permute(0, 2, 1)":                      nil,
		"x = x.permute(0, 2, 1).is_contiguous()":                   nil,
	} {
		if got := parseLine(source).Copied; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

// What takes a tensor apart is called there, be it a method or a function.
func TestParted(t *testing.T) {
	for source, want := range map[string]bool{
		"q, k, v = self.qkv(x).chunk(3, dim=-1)": true,
		"i, f, o, g = torch.split(z, n, 1)":      true,
		"return [f(y) for y in x.unbind(0)]":     true,
		"x = torch.cat(chunk, dim=1)":            false,
		"z = self.split + x":                     false,
	} {
		if got := parseLine(source).Parted; got != want {
			t.Errorf("%s: %v, want %v", source, got, want)
		}
	}
}
