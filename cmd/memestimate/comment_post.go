//go:build !js

package main

import (
	"context"

	"github.com/memestimate/memestimate/gate/forge"
)

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
