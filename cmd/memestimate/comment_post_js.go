package main

import (
	"context"
	"errors"
)

// postComment refuses: a page has no comment command.
func (c *commenting) postComment(context.Context, *env, string) (done, address string, err error) {
	return "", "", errors.New("not in a page")
}
