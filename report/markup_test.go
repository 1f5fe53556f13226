package report

import "testing"

// What the program did not write itself is text, in an attribute too.
func TestMarkupEscapes(t *testing.T) {
	const name = `"><script>alert('&')</script>`
	var m Markup
	m.Add(`<p title="%s">%s</p>`, name, name)
	m.Cell("td", "", true, name)
	m.AddIf(false, "<p>%s</p>", name)
	const text = "&#34;&gt;&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;"
	if got, want := m.String(), `<p title="`+text+`">`+text+`</p><td class="n">`+text+`</td>`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
