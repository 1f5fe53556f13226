//go:build !js

package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/gate"
	"github.com/memestimate/memestimate/gate/forge"
)

// A commenting is the flags of the comment command.
type commenting struct {
	checking
	post   bool
	number int
	key    string
	wait   time.Duration
	out    output
}

var commentKey = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.]{0,40}$`) })

// commentCommand writes what a pull request should say about its models, and with --post says it.
func commentCommand(e *env) *cobra.Command {
	var c commenting
	cmd := &cobra.Command{
		Use:   "comment",
		Short: "Write a pull request's comment: budgets and what changes",
		Long: `Estimate the models of memestimate.yaml, hold them against their budgets, and write what changes over
the base, as the comment of a pull request. Without --post it is printed, and nothing is sent.

With --post it becomes one comment of the pull request, updated in place, and is added to the job's
summary. The surroundings are those of a GitHub workflow: GITHUB_TOKEN, GITHUB_REPOSITORY,
GITHUB_REF or GITHUB_EVENT_PATH, GITHUB_API_URL and GITHUB_STEP_SUMMARY; or those of a GitLab job,
with a token of yours in GITLAB_TOKEN. Where the comment cannot be posted, as in a pull request from
a fork, the summary has it all the same. Whatever keeps the check from being made is said in the
same places. Exit codes are those of check.`,
		Example: `  memestimate comment --base origin/main
  memestimate comment --base "$BASE_SHA" --post --annotate`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.out.check(fileSource(c.config)); err != nil {
				return err
			}
			switch {
			case !commentKey().MatchString(c.key):
				return usagef("--key %s: want letters, digits, dots and underscores", quoteArg(c.key))
			case c.number < 0:
				return usagef("--pull %d is not the number of a pull request", c.number)
			case c.post && cmd.Flags().Changed("output"):
				return usagef("--output is for a comment that is printed, and --post posts it")
			}
			for _, name := range []string{"pull", "wait"} {
				if !c.post && cmd.Flags().Changed(name) {
					return usagef("--%s goes with --post", name)
				}
			}
			out, err := c.run(e, true, &c.out)
			if err != nil {
				return err
			}
			if !c.post {
				err = c.out.write(e, func(w io.Writer) error {
					_, err := io.WriteString(w, forge.Marker(c.key)+"\n"+out.Comment(gate.CommentRoom, true))
					return err
				})
			} else {
				err = c.publish(cmd.Context(), e, out)
			}
			if no := c.verdict(e, out); no != nil { // which counts more than where it could not be said
				if err != nil {
					tell(e.stderr, err)
				}
				return no
			}
			return err
		},
	}
	c.flags(cmd.Flags())
	c.wait = 3 * time.Minute
	addFlags(cmd.Flags(), []flagRow{
		{"post", 0, &c.post, "post the comment and add to the job's summary, rather than print"},
		{"pull", 0, &c.number, "number of the pull request, where the surroundings do not say it"},
		{"key", 0, &c.key, "tells this comment from others of the same pull request"},
		{"wait", 0, &c.wait, "how long to wait at most, in all, when the API limits the rate"},
	})
	c.out.flags(cmd.Flags(), "markdown")
	return cmd
}

// publish posts the comment and writes the summary and the outputs of the step. That one of them fails is told, and is
// an error only when nobody would see the result.
func (c *commenting) publish(ctx context.Context, e *env, out *gate.Outcome) error {
	summary := e.getenv("GITHUB_STEP_SUMMARY")
	var summaryErr error
	if summary != "" {
		room := forge.SummaryRoom(summary)
		if summaryErr = forge.AppendSummary(summary, out.Comment(int(min(room, gate.SummaryRoom)),
			true)+"\n"); summaryErr != nil {
			fmt.Fprintf(e.stderr, "memestimate: job summary: %s\n", oneLine(summaryErr.Error()))
		}
	}
	done, address, err := c.postComment(ctx, e, out.Comment(gate.CommentRoom, true))
	if outputErr := stepOutputs(e, out, address); outputErr != nil {
		fmt.Fprintf(e.stderr, "memestimate: outputs of the step: %s\n", oneLine(outputErr.Error()))
	}
	if err == nil {
		fmt.Fprintf(e.stderr, "memestimate: comment %s: %s\n", done, oneLine(address))
		return nil
	}
	if summary != "" && summaryErr == nil {
		fmt.Fprintf(e.stderr, "memestimate: no comment: %s; the job summary has it\n", oneLine(err.Error()))
		return nil
	}
	return fail(exitOutput, "no comment: %w",
		err).withHint("without --post it is printed; a workflow has GITHUB_STEP_SUMMARY as another place for it")
}

// stepOutputs writes what later steps of a GitHub workflow may ask: the outcome in one word, how many models are over
// their limits or could not be checked, and where the comment is.
func stepOutputs(e *env, out *gate.Outcome, address string) error {
	path := e.getenv("GITHUB_OUTPUT")
	if path == "" {
		return nil
	}
	n := out.Count()
	word := "within"
	switch {
	case out.Err != nil || n.Failed > 0:
		word = "failed"
	case n.Over > 0:
		word = "over"
	case n.Limited == 0:
		word = "unlimited"
	}
	return forge.Append(path, fmt.Sprintf("outcome=%s\nover=%d\nfailed=%d\nmodels=%d\ncomment=%s\n", word, n.Over,
		n.Failed, len(out.Models), oneLine(address)))
}

// postComment writes the comment to the pull request, or into the one that is there.
func (c *commenting) postComment(ctx context.Context, e *env, body string) (done, address string, err error) {
	job, err := forge.CurrentJob(e.getenv)
	if err != nil {
		return "", "", err
	}
	thread, err := forge.Connect(job, &forge.Client{MaxWait: c.wait}, e.getenv, c.number)
	if err != nil {
		return "", "", err
	}
	return forge.Upsert(ctx, thread, forge.Marker(c.key), body)
}
