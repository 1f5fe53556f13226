//go:build !js

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/cluster/prometheus"
	"github.com/memestimate/memestimate/report"
)

// A search is a where command as the command line describes it.
type search struct {
	model    subject
	url      string
	question prometheus.Question
	gpuType  string
	timeout  time.Duration
	out      output
}

// whereCommand lists the GPUs of a fleet on which a job fits.
func whereCommand(e *env) *cobra.Command {
	var s search
	cmd := &cobra.Command{
		Use:   "where [MODEL] --prometheus URL",
		Short: "The hosts and GPUs of a fleet where a job fits now, and since when",
		Long: `Where asks a Prometheus server that scrapes NVIDIA's dcgm-exporter which GPUs have the memory for
what is safe by a MODEL's estimate, or --need, now, and for how long they have had it.

The answer is as old as the last scrape, and says how old that is: it ranks hosts, and holds
nothing. GPUs whose last sample is older than --max-age, or that fell silent, are listed apart. A
server that knows no GPU is exit code 4, not 1.`,
		Example: `  memestimate where resnet50 --batch 256 --prometheus http://prometheus:9090
  memestimate where --need 70GiB --prometheus http://prometheus:9090 --format json`,
		Args: atMost("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error { return s.run(e, cmd, args) },
	}
	q := &s.question
	q.MaxAge, q.Lookback, s.timeout = 2*time.Minute, time.Hour, 10*time.Second
	addFlags(cmd.Flags(), []flagRow{
		{"prometheus", 0, &s.url, "address of the server (default $PROMETHEUS_URL)"},
		{"gpu-type", 0, &s.gpuType, "only GPUs whose name matches this regular expression, in any case"},
		{"host-label", 0, &q.Host,
			"label with the host's name (default: the first there is of Hostname, node, instance and the like)"},
		{"match", 0, &q.Matchers, `further label matchers, such as cluster="a"`},
		{"max-age", 0, &q.MaxAge, "samples older than this do not count"},
		{"lookback", 0, &q.Lookback, "how far back to look for since when it fits"},
		{"timeout", 0, &s.timeout, "how long the server may take"},
	})
	s.model.needFlags(cmd.Flags())
	s.out.flags(cmd.Flags(), "text", "markdown", "csv", "json")
	return cmd
}

func (s *search) run(e *env, cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		s.model.arg = args[0]
	}
	s.url = cmp.Or(s.url, e.getenv("PROMETHEUS_URL"))
	switch {
	case s.url == "":
		return usagef("where: which server? give --prometheus URL").withHint("for example: memestimate where --need 20GiB " +
			"--prometheus http://prometheus:9090")
	case s.question.Lookback < time.Minute || s.question.MaxAge <= 0 || s.timeout <= 0:
		return usagef("where: --lookback from 1m, --max-age and --timeout above 0")
	}
	if err := s.out.check(); err != nil {
		return err
	}
	if s.gpuType != "" {
		x, err := regexp.Compile("(?i)" + s.gpuType)
		if err != nil {
			return usagef("--gpu-type %q: %w", s.gpuType, err)
		}
		s.question.Type = x.MatchString
	}
	bytes, err := s.model.asked(e, cmd)
	if err != nil {
		return err
	}
	s.question.Need = bytes + s.model.margin
	ctx, cancel := context.WithTimeout(cmd.Context(), s.timeout)
	defer cancel()
	a, err := prometheus.Where(ctx, s.url, s.question)
	if err != nil {
		return fail(exitDevice, "where: %s: %w", quoteArg(prometheus.Shown(s.url)), err)
	}
	if a.Series == 0 {
		return fail(exitDevice, "where: %s knows no GPU that could be asked for",
			quoteArg(prometheus.Shown(s.url))).withHint("it needs the series DCGM_FI_DEV_FB_FREE of dcgm-exporter")
	}
	if err := s.out.write(e, func(w io.Writer) error { return s.write(w, e, a) }); err != nil {
		return err
	}
	for _, p := range a.Stale {
		why := fmt.Sprintf("the last sample is %v old", p.Age.Round(time.Second))
		if p.Silent {
			why = fmt.Sprintf("silent for %v", p.Age.Round(time.Second))
		}
		fmt.Fprintf(e.stderr, "memestimate: where: %s is not counted: %s\n", oneLine(nameOf(&p)), why)
	}
	if len(a.Fit) > 0 {
		return nil
	}
	err = fmt.Errorf("no GPU of %d has %s available", a.Series, report.Size(int64(s.question.Need)))
	if len(a.Short) > 0 {
		p := &a.Short[0]
		err = fmt.Errorf("%w: %s comes closest with %s, %s short", err, oneLine(nameOf(p)),
			report.Size(int64(p.Free)), report.Size(int64(s.question.Need-p.Free)))
	}
	return fail(exitNo, "where: %w", err)
}

// nameOf names a place for people.
func nameOf(p *prometheus.Place) string {
	s := report.Show(p.Host, 60) + " GPU " + printable(p.GPU)
	if p.Instance != "" {
		s += " MIG " + printable(p.Instance)
	}
	return s
}

func (s *search) write(w io.Writer, e *env, a *prometheus.Answer) error {
	if s.out.format == "json" {
		return report.JSON(w, whereJSON{whereForm, s.question.Need, a.Fit, a.Short, a.Stale})
	}
	if len(a.Fit) == 0 {
		return nil
	}
	csv := s.out.format == "csv"
	g := &report.Grid{Columns: []report.Column{
		{Title: "Host", Code: true}, {Title: "GPU", Code: true}, {Title: "Name", Code: true},
		{Title: "Available", Right: true}, {Title: "Fits for", Right: true}, {Title: "Data is old", Right: true},
	}}
	for i := range a.Fit {
		p := &a.Fit[i]
		gpu := p.GPU
		if p.Instance != "" {
			gpu += " MIG " + p.Instance
		}
		available, since := report.Size(int64(p.Free)), p.Since.Round(time.Second).String()
		if csv {
			available = strconv.FormatUint(p.Free, 10)
		}
		if p.All {
			since = "more than " + since
		}
		g.Rows = append(g.Rows, []string{report.Show(p.Host, 60), printable(gpu), printable(p.Name), available, since,
			p.Age.Round(time.Second).String()})
	}
	return s.out.grid(w, e, g)
}

// whereJSON is the answer of where.
type whereJSON struct {
	Schema string             `json:"schema"`
	Need   uint64             `json:"need_bytes"`
	Fit    []prometheus.Place `json:"fit"`   // the tightest first
	Short  []prometheus.Place `json:"short"` // with too little memory now
	Stale  []prometheus.Place `json:"stale"` // whose data is too old, or that fell silent
}
