package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/url"

	"github.com/memestimate/memestimate/gate/budget"
)

// Rules that a problem is told under.
const (
	ruleOver   = "over-budget"
	ruleFailed = "not-estimated"
	ruleBroken = "not-checked"
)

// rule returns the rule of a problem.
func (p *problem) rule() string {
	switch {
	case p.line != nil:
		return ruleOver
	case p.model != "":
		return ruleFailed
	}
	return ruleBroken
}

// fingerprint tells a problem from others, and stays when its figures change.
func (p *problem) fingerprint() string {
	h := sha256.New()
	part := func(s string) { io.WriteString(h, s+"\x00") } // a hash does not fail
	part(p.rule())
	part(p.model)
	if p.line != nil {
		part(p.line.Settings)
		part(p.line.Total)
		part(limitKind(p.line))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func limitKind(l *budget.Line) string {
	if l.LimitText != "" && l.LimitText[0] == '+' {
		return "growth"
	}
	return l.LimitText
}

// codeQuality writes what is wrong as a report that GitLab shows in a merge request.
func codeQuality(w io.Writer, o *outcome) error {
	type lines struct {
		Begin int `json:"begin"`
	}
	type location struct {
		Path  string `json:"path"`
		Lines lines  `json:"lines"`
	}
	type entry struct {
		Description string   `json:"description"`
		Check       string   `json:"check_name"`
		Fingerprint string   `json:"fingerprint"`
		Severity    string   `json:"severity"`
		Location    location `json:"location"`
	}
	out := []entry{}
	for _, p := range o.problems() {
		out = append(out, entry{p.text, p.rule(), p.fingerprint(), "blocker",
			location{o.shown, lines{max(p.at, 1)}}})
	}
	return encodeJSON(w, out)
}

// sarif writes what is wrong as SARIF 2.1.0, for code scanning.
func sarif(w io.Writer, o *outcome) error {
	type text struct {
		Text string `json:"text"`
	}
	type rule struct {
		ID    string `json:"id"`
		Short text   `json:"shortDescription"`
		Help  string `json:"helpUri"`
	}
	type region struct {
		Start int `json:"startLine"`
	}
	type artifact struct {
		URI string `json:"uri"`
	}
	type physical struct {
		Artifact artifact `json:"artifactLocation"`
		Region   region   `json:"region"`
	}
	type location struct {
		Physical physical `json:"physicalLocation"`
	}
	type result struct {
		Rule         string            `json:"ruleId"`
		Level        string            `json:"level"`
		Message      text              `json:"message"`
		Locations    []location        `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
	}
	type driver struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		Page    string `json:"informationUri"`
		Rules   []rule `json:"rules"`
	}
	type tool struct {
		Driver driver `json:"driver"`
	}
	type run struct {
		Tool    tool     `json:"tool"`
		Results []result `json:"results"`
	}
	results := []result{}
	for _, p := range o.problems() {
		uri := (&url.URL{Path: o.shown}).String()
		results = append(results, result{
			p.rule(), "error", text{p.text}, []location{{physical{artifact{uri}, region{max(p.at, 1)}}}},
			map[string]string{"memestimate/v1": p.fingerprint()},
		})
	}
	return encodeJSON(w, struct {
		Schema  string `json:"$schema"`
		Version string `json:"version"`
		Runs    []run  `json:"runs"`
	}{
		"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []run{{tool{driver{
			"memestimate", shortVersion(), docsPage, []rule{
				{ruleOver, text{"A model takes more GPU memory than its budget allows"}, docsPage},
				{ruleFailed, text{"A model could not be estimated"}, docsPage},
				{ruleBroken, text{"The check could not be made"}, docsPage},
			},
		}}, results}},
	})
}
