package recover

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
)

// say prints what the parser took a line for.
func say(s *program.Statement) string {
	var parts []string
	for ; s != nil; s = s.Next {
		kind := map[program.StatementKind]string{program.Bare: "bare", program.Binding: "bind",
			program.Augment: "augment" + s.Sign, program.Returns: "return"}[s.Kind]
		p := kind + " " + strings.Join(s.Targets, ",") + " <- " + strings.Join(s.Reads, ",")
		if len(s.Calls) > 0 {
			p += fmt.Sprintf(" calls %q", s.Calls)
		}
		for i, is := range []bool{s.Spread, s.Inplace} {
			if is {
				p += " " + []string{"spread", "in place"}[i]
			}
		}
		if s.Held != "" {
			p += " held " + s.Held
		}
		if s.Copies != "" {
			p += " copies " + s.Copies
		}
		if s.Open {
			p += " ..."
		}
		parts = append(parts, p)
	}
	return strings.Join(parts, "; ")
}

func TestLines(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"x = self.conv1(x)", `bind x <- x calls ["conv1"]`},
		{"out += identity", "augment+ out <- out,identity"},
		{"x = shortcut + self.drop_path(self.attn(self.norm1(x)))", `bind x <- shortcut,x calls ["drop_path" "attn" "norm1"]`},
		{"q, k, v = qkv.unbind(0)", "bind q,k,v <- qkv spread"},
		{"y, (h, c) = self.r(x)", `bind y,h,c <- x calls ["r"] spread`},
		{"inputs_embeds: torch.Tensor = self.embed_tokens(input_ids)",
			`bind inputs_embeds <- input_ids calls ["embed_tokens"]`},
		{"query = key = value = query.transpose(1, 0)", "bind query,key,value <- query"},
		{"x = x.view(B, N, C)  # B, N, C", "bind x <- x"},
		{"x = x[:, i] + torch.cat([a, b], dim=1)", "bind x <- x,a,b"},
		{"return F.batch_norm(", "return  <-  ..."},
		{"x = torch.cat([", "bind x <-  ..."},
		{"self.attn(self.norm1(x)),", `bare  <- x calls ["attn" "norm1"]`},
		{".permute(0, 2, 1))", "bare  <- "},
		{"+ self.mlp(x)", `bare  <- x calls ["mlp"]`},
		{"x)", "bare  <- x"},
		{"outs.append(module(x))", `bare  <- x calls [""] held outs`},
		{"features[name] = self.layer(x)", `bind  <- x calls ["layer"] held features`},
		{"self.cache = x", "bind self.cache <- x copies x"},
		{"s = x", "bind s <- x copies x"},
		{"x = self.i(x); s = x", `bind x <- x calls ["i"]; bind s <- x copies x`},
		{"for b in self.b: x = x + b(x)*0.1", `bind x <- x,x calls [""]`},
		{"def forward(self, x): return self.o(self.n(x))", `return  <- x calls ["o" "n"]`},
		{"x = [op(y[i]) for i, op in enumerate(self.paths)]", `bind x <- y calls [""]`},
		{"x = self.blocks[i](x)", `bind x <- x calls ["blocks"]`},
		{"x = eval('self.block' + str(i))(x)", `bind x <- x calls [""]`},
		{"x.add_(y)", "bare  <- x,y in place"},
		{"x = F.relu(x, inplace=True)", "bind x <- x in place"},
		{"return F.relu(input, inplace=self.inplace)", "return  <- input"},
		{`x = f"{a}" if x is None else x`, "bind x <- x,x"},
		{"if (y := self.f(x)) is not None:", `bare y <- x calls ["f"]`},
		{"x = \\", "bind x <-  ..."},
		{"x = 'never ends", "bind x <-  ..."},
		{"", "bare  <- "},
		{"lambda: (", "bare  <-  ..."},
		{"= = = ]", "bind ,, <- "},
		{strings.Repeat("(", 1000), "bare  <-  ..."},
		{strings.Repeat("x = ", 2000), "bare  <-  ..."},
	} {
		if got := say(parseLine(c.line)); got != c.want {
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
	f.Fuzz(func(t *testing.T, line string) {
		for s := parseLine(line); s != nil; s = s.Next {
			if len(s.Targets)+len(s.Reads)+len(s.Calls) > 3*len(line)+3 {
				t.Errorf("%q has more names than bytes", line)
			}
		}
	})
}

// What a line copies is what is turned there, and no other word.
func TestCopied(t *testing.T) {
	for source, want := range map[string][]string{
		"out = self.net(x.permute(0, 3, 1, 2).contiguous())":       {"permute"},
		"q, k = q.transpose(1, 2).contiguous(), k.transpose(1, 2)": {"transpose"},
		"x = x.contiguous().permute(0, 2, 1)":                      nil,
		"x = x.permute(0, 2, 1).is_contiguous()":                   nil,
	} {
		if got := parseLine(source).Copied; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}
